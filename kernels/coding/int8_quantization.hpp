// Prototypes in eight bits: a quarter of the bytes, a quarter of the time, and a proven bound.
//
// A prototype is d = s q + e with whole numbers |q| <= 127, a vector likewise x = u p + f. Then
//
//     d . x = s u (q . p) + e . x + s q . f,   so   |d . x - s u (q . p)| <= |e| |x| + |s q| |f|.
//
// q . p is a sum of whole numbers: the same bits by whatever instructions, in whatever batch.
#pragma once

#include <cstdint>
#include <vector>

namespace prototag {

constexpr std::int64_t kTile = 64;    // prototypes whose products are computed together
constexpr std::int64_t kTogether = 4;  // vectors that they are computed with

struct Compact {
  const std::uint8_t* codes;  // tiles x quads x kTile x 4: q + 128, four columns side by side
  const float* scale;         // s; here and below tiles x kTile, zeros after the last prototype
  const float* error;         // at least |e|
  const float* length;        // at least |s q|
  std::int64_t count, visual, width;
  float label_scale;  // columns from `visual` on are multiplied by it, and divided in vectors

  std::int64_t tiles() const { return (count + kTile - 1) / kTile; }
  std::int64_t quads() const { return (width + 3) / 4; }
};

// Fill codes, scale, error and length from rows (count x width); `weights` divide the rows.
void compact(const float* rows, const float* weights, const Compact& into);

// A vector in eight bits, made for products with a Compact.
class Short {
 public:
  std::vector<std::int32_t> quads;  // four whole numbers each
  std::vector<std::int32_t> pairs;  // columns 0 and 2, 1 and 3 of each quad, in sixteen bits
  std::int32_t offset;              // what the 128 of the prototypes adds to each product
  float scale;                      // u, never zero
  float norm, error;                // at least |x| / u and |f| / u

  void take(const float* x, const Compact& z);

 private:
  std::vector<float> column;  // in the scales of the prototypes' columns
  std::vector<std::int8_t> whole;
};

// products[v * kTile + j] = (q_j + 128) . p_v for prototypes j of a tile and up to four vectors v.
void multiply(const Compact& z, std::int64_t tile, const Short* const* vectors, int count,
              std::int32_t* products);

}  // namespace prototag
