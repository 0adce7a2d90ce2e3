#include "coding/int8_quantization.hpp"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <limits>

#include "coding/dot_product.hpp"
#include "coding/cpu_dispatch.hpp"

#ifdef PROTOTAG_X86
#include <immintrin.h>
#endif

namespace prototag {
namespace {

constexpr float kMost = 127;
// Relative float32 rounding error of norms, errors and bounds; sums of squares of w terms round w times.
float slack(std::int64_t width) { return 4e-6f + 1e-6f * static_cast<float>(width) / 8; }

struct Quantised {
  float scale, error, length, norm;
};

using detail::Lane;

PROTOTAG_INLINE float root(const Lane& squares) { return std::sqrt(detail::sum(squares)); }

// Quantizes v, whose width is a multiple of eight, and bounds the error. The bits are the same for all
// instruction sets, because this file is compiled without contracted products.
PROTOTAG_INLINE Quantised quantise_all(const float* v, std::int64_t width, float most,
                                       std::int8_t* q) {
  constexpr float kInfinity = std::numeric_limits<float>::infinity();
  Lane top{}, zero{};
  for (std::int64_t c = 0; c < width; c += 8) {
    Lane size;
    detail::load(size, v + c);
    size = PROTOTAG_WHERE(size < 0.0f, -size, size);
    top = PROTOTAG_WHERE(size > top, size, top);
    zero += size - size;  // not zero for NaN or infinity
  }
  float largest = 0;
  for (int l = 0; l < 8; ++l) largest = top[l] > largest ? top[l] : largest;
  std::fill(q, q + width, std::int8_t{0});
  // Infinite bounds: such a vector is always computed exactly.
  if (!(detail::sum(zero) == 0)) return {0, kInfinity, 0, kInfinity};
  const float scale = largest / most, inverse = most / largest;
  if (!(scale > 0 && inverse <= std::numeric_limits<float>::max())) {
    const float bound = largest * std::sqrt(static_cast<float>(width)) * 1.001f;
    return {0, bound, 0, bound};
  }
  constexpr float kShift = 12582912.0f;  // 1.5 * 2^23: adding it rounds to an integer
  Lane error{}, length{}, norm{};        // in units of the scale, to avoid overflow
  for (std::int64_t c = 0; c < width; c += 8) {
    Lane x;
    detail::load(x, v + c);
    x *= inverse;
    const Lane t = (x + kShift) - kShift, rest = x - t;
    store_bytes(t, q + c);
    error += rest * rest, length += t * t, norm += x * x;
  }
  const float whole = root(norm), margin = slack(width) * whole;
  return {scale, scale * (root(error) + margin), scale * (root(length) + margin),
          scale * (whole + margin)};
}

#ifdef PROTOTAG_X86
PROTOTAG_AVX2 Quantised quantise_avx2(const float* v, std::int64_t width, float most,
                                      std::int8_t* q) {
  return quantise_all(v, width, most, q);
}
#endif

Quantised quantise(const float* v, std::int64_t width, float most, std::int8_t* q) {
#ifdef PROTOTAG_X86
  if (instructions() != kPortable) return quantise_avx2(v, width, most, q);
#endif
  return quantise_all(v, width, most, q);
}

void multiply_portable(const std::uint8_t* codes, std::int64_t quads, const Int8Vector* const* vectors,
                       int count, std::int32_t* out) {
  std::fill(out, out + count * kTile, 0);
  for (std::int64_t q = 0; q < quads; ++q, codes += 4 * kTile) {
    for (int v = 0; v < count; ++v) {
      std::int8_t p[4];
      std::memcpy(p, &vectors[v]->quads[q], 4);
      const std::int32_t a = p[0], b = p[1], c = p[2], d = p[3];
      std::int32_t* sum = out + v * kTile;
      for (std::int64_t j = 0; j < kTile; ++j) {
        const std::uint8_t* code = codes + 4 * j;
        sum[j] += code[0] * a + code[1] * b + code[2] * c + code[3] * d;
      }
    }
  }
}

#ifdef PROTOTAG_X86
template <int kCount>
PROTOTAG_AVX512 void multiply_avx512(const std::uint8_t* codes, std::int64_t quads,
                                     const Int8Vector* const* vectors, std::int32_t* out) {
  const std::int32_t* x[kCount];
  __m512i sum[kCount][4];
  for (int v = 0; v < kCount; ++v) {
    x[v] = vectors[v]->quads.data();
    for (int p = 0; p < 4; ++p) sum[v][p] = _mm512_setzero_si512();
  }
  for (std::int64_t q = 0; q < quads; ++q, codes += 4 * kTile) {
    __m512i d[4];
    for (int p = 0; p < 4; ++p) d[p] = _mm512_loadu_si512(codes + 64 * p);
    for (int v = 0; v < kCount; ++v) {
      const __m512i four = _mm512_set1_epi32(x[v][q]);
      for (int p = 0; p < 4; ++p) sum[v][p] = _mm512_dpbusd_epi32(sum[v][p], d[p], four);
    }
  }
  for (int v = 0; v < kCount; ++v) {
    for (int p = 0; p < 4; ++p) _mm512_storeu_si512(out + v * kTile + 16 * p, sum[v][p]);
  }
}

// Without VNNI: bytes are widened to int16, even and odd columns separately, so that no product saturates.
template <int kCount>
PROTOTAG_AVX2 void multiply_avx2(const std::uint8_t* codes, std::int64_t quads,
                                 const Int8Vector* const* vectors, std::int32_t* out) {
  const std::int32_t* x[kCount];
  for (int v = 0; v < kCount; ++v) x[v] = vectors[v]->pairs.data();
  const __m256i low = _mm256_set1_epi16(255);
  for (std::int64_t part = 0; part < kTile / 16; ++part) {
    __m256i sum[kCount][2];
    for (int v = 0; v < kCount; ++v) sum[v][0] = sum[v][1] = _mm256_setzero_si256();
    const std::uint8_t* code = codes + 64 * part;
    for (std::int64_t q = 0; q < quads; ++q, code += 4 * kTile) {
      __m256i even[2], odd[2];
      for (int p = 0; p < 2; ++p) {
        const __m256i d = _mm256_loadu_si256(reinterpret_cast<const __m256i*>(code + 32 * p));
        even[p] = _mm256_and_si256(d, low), odd[p] = _mm256_srli_epi16(d, 8);
      }
      for (int v = 0; v < kCount; ++v) {
        const __m256i a = _mm256_set1_epi32(x[v][2 * q]), b = _mm256_set1_epi32(x[v][2 * q + 1]);
        for (int p = 0; p < 2; ++p) {
          const __m256i four =
              _mm256_add_epi32(_mm256_madd_epi16(even[p], a), _mm256_madd_epi16(odd[p], b));
          sum[v][p] = _mm256_add_epi32(sum[v][p], four);
        }
      }
    }
    for (int v = 0; v < kCount; ++v) {
      for (int p = 0; p < 2; ++p) {
        _mm256_storeu_si256(reinterpret_cast<__m256i*>(out + v * kTile + 16 * part + 8 * p),
                            sum[v][p]);
      }
    }
  }
}
#endif

}  // namespace

void quantize_prototypes(const float* rows, const float* weights, const Int8Prototypes& z) {
  const std::int64_t quads = z.quads(), all = z.tiles() * kTile;
  auto* codes = const_cast<std::uint8_t*>(z.codes);
  auto *scale = const_cast<float*>(z.scale), *error = const_cast<float*>(z.error);
  auto* length = const_cast<float*>(z.length);
  const std::int64_t padded = (z.width + 7) / 8 * 8;
  std::vector<float> row(padded, 0.0f);
  std::vector<std::int8_t> q(padded, 0);
  for (std::int64_t k = 0; k < all; ++k) {
    Quantised own{0, 0, 0, 0};
    if (k < z.count) {
      const float *from = rows + k * z.width, over = weights ? 1 / weights[k] : 1.0f;
      if (weights || padded > z.visual) {
        for (std::int64_t c = 0; c < z.visual; ++c) row[c] = from[c] * over;
        for (std::int64_t c = z.visual; c < z.width; ++c) row[c] = from[c] * over * z.label_scale;
        from = row.data();
      }
      own = quantise(from, padded, kMost, q.data());
    } else {
      std::fill(q.begin(), q.end(), std::int8_t{0});
    }
    scale[k] = own.scale, error[k] = own.error, length[k] = own.length;
    std::uint8_t* to = codes + (k / kTile) * quads * 4 * kTile + 4 * (k % kTile);
    for (std::int64_t c = 0; c < quads; ++c) {
      std::uint32_t four;
      std::memcpy(&four, q.data() + 4 * c, 4);
      four ^= 0x80808080u;  // + 128
      std::memcpy(to + c * 4 * kTile, &four, 4);
    }
  }
}

void Int8Vector::take(const float* x, const Int8Prototypes& z) {
  const std::int64_t count = z.quads(), padded = (z.width + 7) / 8 * 8;
  column.assign(padded, 0.0f), whole.resize(padded);
  std::copy(x, x + z.visual, column.begin());
  for (std::int64_t c = z.visual; c < z.width; ++c) column[c] = x[c] / z.label_scale;
  // Keeps sums of products with codes up to 255 within 31 bits.
  const float most = std::max(1.0f, std::floor(std::min(kMost, 8.4e6f / (4.0f * count))));
  const Quantised own = quantise(column.data(), padded, most, whole.data());
  quads.resize(count), pairs.resize(2 * count);
  std::memcpy(quads.data(), whole.data(), 4 * count);
  std::int32_t sum = 0;
  for (std::int64_t c = 0; c < count; ++c) {
    const std::int8_t* four = whole.data() + 4 * c;
    sum += four[0] + four[1] + four[2] + four[3];
    const std::int16_t apart[4] = {four[0], four[2], four[1], four[3]};
    std::memcpy(pairs.data() + 2 * c, apart, sizeof apart);
  }
  offset = 128 * sum;
  scale = own.scale > 0 ? own.scale : 1.0f;
  norm = own.norm / scale, error = own.error / scale;
}

void multiply(const Int8Prototypes& z, std::int64_t tile, const Int8Vector* const* vectors, int count,
              std::int32_t* products) {
  const std::int64_t quads = z.quads();
  const std::uint8_t* codes = z.codes + tile * quads * 4 * kTile;
#ifdef PROTOTAG_X86
  const Instructions use = instructions();
  for (; use != kPortable && count >= 4; count -= 4, vectors += 4, products += 4 * kTile) {
    (use == kAvx512 ? multiply_avx512<4> : multiply_avx2<4>)(codes, quads, vectors, products);
  }
  for (; use != kPortable && count > 0; --count, ++vectors, products += kTile) {
    (use == kAvx512 ? multiply_avx512<1> : multiply_avx2<1>)(codes, quads, vectors, products);
  }
#endif
  if (count > 0) multiply_portable(codes, quads, vectors, count, products);
}

}  // namespace prototag
