// Which prototypes can matter for an image: chosen before the path is followed, checked after it.
#pragma once

#include <cstdint>
#include <vector>

#include "coding/int8_quantization.hpp"

namespace prototag {

constexpr std::int64_t kGroup = 32;  // images screened together

struct Chosen {
  std::vector<std::int32_t> index;
  std::int64_t core;  // the best stand first: how many
};

// The prototypes that promise most for each of up to kGroup vectors, by products of eight bits:
// about `width`, always fewer than twice as many; about `core` best ones first. All others promise
// no more than any that is chosen.
//   own  of each vector the prototype that it must not use, -1 for none; may be null
void screen(const Compact& z, const Short* const* vectors, const std::int64_t* own, int n,
            std::int64_t width, std::int64_t core, Chosen* chosen);

// The same for any number of vectors (n x width), as rows of `room` numbers; needs room for 2 width.
void screen_rows(const Compact& z, const float* hints, const std::int64_t* own, std::int64_t n,
                 std::int64_t width, std::int64_t core, std::int32_t* candidate,
                 std::int32_t* count, std::int64_t room);

// The prototypes whose product with a vector may exceed its bound, in order: no other does.
void suspects(const Compact& z, const Short* const* vectors, const float* bound, int n,
              std::vector<std::int32_t>* found);

// The same for any number of vectors (n x width): `suspected` (n x count) is 1 for these, else 0.
void suspect_rows(const Compact& z, const float* vectors, const float* bound, std::int64_t n,
                  std::uint8_t* suspected);

}  // namespace prototag
