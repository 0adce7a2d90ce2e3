// Screening of prototypes by int8 products: candidates before the path, possible violators after it.
#pragma once

#include <cstdint>
#include <vector>

#include "coding/int8_quantization.hpp"

namespace prototag {

constexpr std::int64_t kGroup = 32;  // images screened together

struct Chosen {
  std::vector<std::int32_t> index;
  std::int64_t core;  // number of leading candidates that form the working set
};

// Selects the prototypes with the largest estimated products with each of up to kGroup vectors: about
// `width`, always fewer than twice as many, beginning with about `core` best ones.
//   excluded  of each vector the prototype that it must not use, -1 for none; may be null
void screen(const Int8Prototypes& z, const Int8Vector* const* vectors, const std::int64_t* excluded, int n,
            std::int64_t width, std::int64_t core, Chosen* chosen);

// Screens any number of vectors (n x width); candidates are rows of `room` >= 2 width indices.
void screen_rows(const Int8Prototypes& z, const float* hints, const std::int64_t* excluded, std::int64_t n,
                 std::int64_t width, std::int64_t core, std::int32_t* candidate,
                 std::int32_t* count, std::int64_t room);

// Lists the prototypes whose product with a vector may exceed its bound, by index; no other can.
void possible_violators(const Int8Prototypes& z, const Int8Vector* const* vectors, const float* bound, int n,
              std::vector<std::int32_t>* found);

// Marks them for any number of vectors (n x width): `may_violate` (n x count) is 1 or 0.
void possible_violator_rows(const Int8Prototypes& z, const float* vectors, const float* bound, std::int64_t n,
                  std::uint8_t* may_violate);

}  // namespace prototag
