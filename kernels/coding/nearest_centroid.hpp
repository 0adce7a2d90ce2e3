// Nearest-centroid search: int8 products exclude most centroids, and the others are compared exactly.
#pragma once

#include <cstdint>

#include "coding/int8_quantization.hpp"

namespace prototag {

// Finds the centroid with the largest x . c - half of each of n vectors (n x width); ties take the first.
//   half      |c|^2 / 2 of each centroid, which makes this the nearest
//   label     initial guess, replaced by the result; a good guess excludes more centroids
//   affinity  x . c - half of the result
void nearest_centroids(const Int8Prototypes& z, const float* centres, const float* half, const float* vectors,
             std::int64_t n, std::int64_t* label, float* affinity);

}  // namespace prototag
