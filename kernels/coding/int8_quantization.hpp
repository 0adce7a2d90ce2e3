// Int8 quantization of prototypes and vectors, with a proven bound of the error of their products.
//
// A prototype is d = s q + e with integers |q| <= 127, and a vector x = u p + f. Then
//
//     d . x = s u (q . p) + e . x + s q . f,   so   |d . x - s u (q . p)| <= |e| |x| + |s q| |f|.
//
// q . p is an integer sum, so it is identical for all instruction sets and batches.
#pragma once

#include <cstdint>
#include <vector>

namespace prototag {

constexpr std::int64_t kTile = 64;    // prototypes whose products are computed together
constexpr std::int64_t kTogether = 4;  // vectors per multiplication of a tile

struct Int8Prototypes {
  const std::uint8_t* codes;  // tiles x quads x kTile x 4: q + 128, four columns side by side
  const float* scale;         // s; like the next two tiles x kTile, zero-padded
  const float* error;         // at least |e|
  const float* length;        // at least |s q|
  std::int64_t count, visual, width;
  float label_scale;  // factor of the label columns of prototypes, and divisor of those of vectors

  std::int64_t tiles() const { return (count + kTile - 1) / kTile; }
  std::int64_t quads() const { return (width + 3) / 4; }
};

// Computes codes, scale, error and length from rows (count x width), divided by `weights` if given.
void quantize_prototypes(const float* rows, const float* weights, const Int8Prototypes& into);

// A quantized vector for products with Int8Prototypes.
class Int8Vector {
 public:
  std::vector<std::int32_t> quads;  // four int8 each
  std::vector<std::int32_t> pairs;  // columns 0 and 2, 1 and 3 of each quad as int16
  std::int32_t offset;              // contribution of the offset 128 of the codes to each product
  float scale;                      // u, never zero
  float norm, error;                // at least |x| / u and |f| / u

  void take(const float* x, const Int8Prototypes& z);

 private:
  std::vector<float> column;  // in the scales of the prototypes' columns
  std::vector<std::int8_t> whole;
};

// products[v * kTile + j] = (q_j + 128) . p_v for prototypes j of a tile and up to four vectors v.
void multiply(const Int8Prototypes& z, std::int64_t tile, const Int8Vector* const* vectors, int count,
              std::int32_t* products);

}  // namespace prototag
