#include "coding/compact.hpp"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <limits>

#include "coding/instructions.hpp"

#ifdef PROTOTAG_X86
#include <immintrin.h>
#endif

namespace prototag {
namespace {

constexpr float kMost = 127;
// What float32 may round off in norms, errors and bounds, as a share of lengths; sums of squares of
// w terms add w roundings.
float slack(std::int64_t width) { return 4e-6f + 1e-6f * static_cast<float>(width) / 8; }

// To the nearest whole number, for |t| < 2^22, without a call.
PROTOTAG_INLINE float rounded(float t) {
  constexpr float kShift = 12582912.0f;  // 1.5 * 2^23
  return (t + kShift) - kShift;
}

struct Quantised {
  float scale, error, length, norm;
};

// Whole numbers for v (changed to its columns' scales before), and the lengths of what they miss.
Quantised quantise(const float* v, std::int64_t width, float most, std::int8_t* q) {
  float largest = 0;
  bool sound = true;
  for (std::int64_t c = 0; c < width; ++c) {
    const float size = std::fabs(v[c]);
    sound &= size <= std::numeric_limits<float>::max();
    largest = size > largest ? size : largest;
  }
  std::memset(q, 0, static_cast<std::size_t>(width));
  const float infinity = std::numeric_limits<float>::infinity();
  if (!sound) return {0, infinity, 0, infinity};  // nothing is known: always looked at exactly
  const float scale = largest / most, inverse = most / largest;
  double error = 0, length = 0, norm = 0;
  if (scale > 0 && inverse <= std::numeric_limits<float>::max()) {
    for (std::int64_t c = 0; c < width; ++c) {
      const float t = std::min(std::max(rounded(v[c] * inverse), -most), most);
      q[c] = static_cast<std::int8_t>(t);
      const float part = scale * t, rest = v[c] - part;
      error += static_cast<double>(rest) * rest;
      length += static_cast<double>(part) * part;
      norm += static_cast<double>(v[c]) * v[c];
    }
  } else {
    for (std::int64_t c = 0; c < width; ++c) norm += static_cast<double>(v[c]) * v[c];
    error = norm;
  }
  const double whole = std::sqrt(norm), margin = slack(width) * whole;
  return {scale, static_cast<float>(std::sqrt(error) + margin),
          static_cast<float>(std::sqrt(length) + margin), static_cast<float>(whole + margin)};
}

void multiply_portable(const std::uint8_t* codes, std::int64_t quads, const Short* const* vectors,
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
                                     const Short* const* vectors, std::int32_t* out) {
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

// Without VNNI: bytes as whole numbers of sixteen bits, even and odd columns apart, so that no
// product saturates.
template <int kCount>
PROTOTAG_AVX2 void multiply_avx2(const std::uint8_t* codes, std::int64_t quads,
                                 const Short* const* vectors, std::int32_t* out) {
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

void compact(const float* rows, const float* weights, const Compact& z) {
  const std::int64_t quads = z.quads(), all = z.tiles() * kTile;
  auto* codes = const_cast<std::uint8_t*>(z.codes);
  auto *scale = const_cast<float*>(z.scale), *error = const_cast<float*>(z.error);
  auto* length = const_cast<float*>(z.length);
  std::vector<float> row(z.width);
  std::vector<std::int8_t> q(4 * quads, 0);
  for (std::int64_t k = 0; k < all; ++k) {
    const float* from = rows + k * z.width;
    Quantised own{0, 0, 0, 0};
    std::fill(q.begin(), q.end(), std::int8_t{0});
    if (k < z.count) {
      if (weights || z.width > z.visual) {
        const float over = weights ? 1 / weights[k] : 1.0f;
        for (std::int64_t c = 0; c < z.width; ++c) {
          row[c] = from[c] * over * (c < z.visual ? 1.0f : z.label_scale);
        }
        from = row.data();
      }
      own = quantise(from, z.width, kMost, q.data());
    }
    scale[k] = own.scale, error[k] = own.error, length[k] = own.length;
    std::uint8_t* to = codes + (k / kTile) * quads * 4 * kTile + 4 * (k % kTile);
    for (std::int64_t c = 0; c < 4 * quads; ++c) {
      to[(c / 4) * 4 * kTile + c % 4] = static_cast<std::uint8_t>(q[c] + 128);
    }
  }
}

void Short::take(const float* x, const Compact& z) {
  const std::int64_t count = z.quads();
  std::vector<float> scaled;
  if (z.width > z.visual) {
    scaled.assign(x, x + z.width);
    for (std::int64_t c = z.visual; c < z.width; ++c) scaled[c] /= z.label_scale;
    x = scaled.data();
  }
  // So that sums of products with numbers up to 255 stay within 31 bits.
  const float most = std::max(1.0f, std::floor(std::min(kMost, 8.4e6f / (4.0f * count))));
  quads.assign(count, 0), pairs.assign(2 * count, 0);
  std::vector<std::int8_t> q(4 * count, 0);
  Quantised own = quantise(x, z.width, most, q.data());
  std::memcpy(quads.data(), q.data(), q.size());
  std::int32_t sum = 0;
  for (std::int64_t c = 0; c < 4 * count; ++c) {
    sum += q[c];
    const auto wide = static_cast<std::int16_t>(q[c]);
    auto* to = reinterpret_cast<char*>(pairs.data()) + 8 * (c / 4) + 4 * (c % 2) + 2 * (c % 4 / 2);
    std::memcpy(to, &wide, sizeof wide);
  }
  offset = 128 * sum;
  scale = own.scale > 0 ? own.scale : 1.0f;
  norm = own.norm / scale, error = own.error / scale;
}

void multiply(const Compact& z, std::int64_t tile, const Short* const* vectors, int count,
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
