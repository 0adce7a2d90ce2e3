// The nearest of many centres, by products of eight bits and an exact look at the few that remain.
#pragma once

#include <cstdint>

#include "coding/int8_quantization.hpp"

namespace prototag {

// For each of n vectors (n x width) the centre with the largest x . c - half, of equals the first.
//   half      of each centre |c|^2 / 2, so that this is the nearest
//   label     a guess before, the answer after: the better the guess, the fewer are looked at
//   nearness  x . c - half of the answer
void closest(const Compact& z, const float* centres, const float* half, const float* vectors,
             std::int64_t n, std::int64_t* label, float* nearness);

}  // namespace prototag
