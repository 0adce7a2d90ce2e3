// Inner products of a vector with selected rows of a matrix, the inner loop of the encoder.
#pragma once

#include <cstdint>
#include <cstring>

#include "coding/cpu_dispatch.hpp"
#include "coding/simd.hpp"

namespace prototag {

// out[j] = rows[index[j]] . v for j < count; rows are `stride` floats apart and `width` long.
using DotRows = void (*)(const float* rows, std::int64_t stride, const std::int32_t* index,
                         std::int64_t count, const float* v, std::int64_t width, float* out);
// The same for four vectors at once: out[r][j] = rows[index[j]] . v[r].
using DotRowsByFour = void (*)(const float* rows, std::int64_t stride, const std::int32_t* index,
                               std::int64_t count, const float* const* v, std::int64_t width,
                               float* const* out);
struct Products {
  DotRows one;
  DotRowsByFour four;
};

namespace detail {

using prototag::Lane;
PROTOTAG_INLINE void load(Lane& lane, const float* p) { std::memcpy(&lane, p, sizeof lane); }

// All products add their lanes in the same order. A product depends on its two vectors only, so the
// result for an image is bit-identical alone and in a batch.
PROTOTAG_INLINE float sum(const Lane& s) {
  return ((s[0] + s[1]) + (s[2] + s[3])) + ((s[4] + s[5]) + (s[6] + s[7]));
}

// Four sums at once, in the order of `sum`.
PROTOTAG_INLINE void sum_four(const Lane& a, const Lane& b, const Lane& c, const Lane& d,
                              float* out) {
#if defined(PROTOTAG_VECTORS) && __has_builtin(__builtin_shufflevector)
#define PROTOTAG_PAIRS(x, y)                                 \
  (__builtin_shufflevector(x, y, 0, 2, 8, 10, 4, 6, 12, 14) + \
   __builtin_shufflevector(x, y, 1, 3, 9, 11, 5, 7, 13, 15))
  const Lane ab = PROTOTAG_PAIRS(a, b), cd = PROTOTAG_PAIRS(c, d);
  const Lane all = PROTOTAG_PAIRS(ab, cd);
#undef PROTOTAG_PAIRS
  for (int i = 0; i < 4; ++i) out[i] = all[i] + all[i + 4];
#else
  out[0] = sum(a), out[1] = sum(b), out[2] = sum(c), out[3] = sum(d);
#endif
}

// The remainder of a width that is no multiple of eight. Not inlined, because the compiler could contract
// products differently at each call.
PROTOTAG_APART float rest(const float* a, const float* b, std::int64_t from, std::int64_t to) {
  float sum = 0;
  for (std::int64_t i = from; i < to; ++i) sum += a[i] * b[i];
  return sum;
}
PROTOTAG_INLINE float tail(const float* a, const float* b, std::int64_t from, std::int64_t to) {
  return from < to ? rest(a, b, from, to) : 0.0f;
}

PROTOTAG_INLINE void dot_rows(const float* rows, std::int64_t stride, const std::int32_t* index,
                              std::int64_t count, const float* v, std::int64_t width, float* out) {
  const std::int64_t body = width - width % 8;
  std::int64_t j = 0;
  for (; j + 4 <= count; j += 4) {
    for (std::int64_t next = j + 4; next < j + 8 && next < count; ++next) {
      const char* row = reinterpret_cast<const char*>(rows + index[next] * stride);
      for (std::int64_t line = 0; line < 4 * width; line += 64) PROTOTAG_PREFETCH(row + line);
    }
    const float* r0 = rows + index[j] * stride;
    const float* r1 = rows + index[j + 1] * stride;
    const float* r2 = rows + index[j + 2] * stride;
    const float* r3 = rows + index[j + 3] * stride;
    Lane s0{}, s1{}, s2{}, s3{};
    for (std::int64_t i = 0; i < body; i += 8) {
      Lane x, a, b, c, d;
      load(x, v + i), load(a, r0 + i), load(b, r1 + i), load(c, r2 + i), load(d, r3 + i);
      s0 += a * x, s1 += b * x, s2 += c * x, s3 += d * x;
    }
    float t[4];
    sum_four(s0, s1, s2, s3, t);
    const float* row[4] = {r0, r1, r2, r3};
    for (int r = 0; r < 4; ++r) out[j + r] = t[r] + tail(row[r], v, body, width);
  }
  for (; j < count; ++j) {
    const float* r0 = rows + index[j] * stride;
    Lane s0{};
    for (std::int64_t i = 0; i < body; i += 8) {
      Lane x, a;
      load(x, v + i), load(a, r0 + i);
      s0 += a * x;
    }
    out[j] = sum(s0) + tail(r0, v, body, width);
  }
}

// Three rows by four vectors: twelve sums stay in registers, which makes the loop compute-bound.
PROTOTAG_INLINE void dot_rows_by_four(const float* rows, std::int64_t stride,
                                      const std::int32_t* index, std::int64_t count,
                                      const float* const* v, std::int64_t width,
                                      float* const* out) {
  const std::int64_t body = width - width % 8;
  const float *v0 = v[0], *v1 = v[1], *v2 = v[2], *v3 = v[3];
  std::int64_t j = 0;
  for (; j + 3 <= count; j += 3) {
    const float* r0 = rows + index[j] * stride;
    const float* r1 = rows + index[j + 1] * stride;
    const float* r2 = rows + index[j + 2] * stride;
    Lane a0{}, a1{}, a2{}, a3{}, b0{}, b1{}, b2{}, b3{}, c0{}, c1{}, c2{}, c3{};
    for (std::int64_t i = 0; i < body; i += 8) {
      Lane a, b, c, x;
      load(a, r0 + i), load(b, r1 + i), load(c, r2 + i);
      load(x, v0 + i);
      a0 += a * x, b0 += b * x, c0 += c * x;
      load(x, v1 + i);
      a1 += a * x, b1 += b * x, c1 += c * x;
      load(x, v2 + i);
      a2 += a * x, b2 += b * x, c2 += c * x;
      load(x, v3 + i);
      a3 += a * x, b3 += b * x, c3 += c * x;
    }
    float sums[3][4];
    sum_four(a0, a1, a2, a3, sums[0]);
    sum_four(b0, b1, b2, b3, sums[1]);
    sum_four(c0, c1, c2, c3, sums[2]);
    const float* row[3] = {r0, r1, r2};
    for (int r = 0; r < 4; ++r) {
      for (int i = 0; i < 3; ++i) out[r][j + i] = sums[i][r] + tail(row[i], v[r], body, width);
    }
  }
  for (int r = 0; r < 4; ++r) {
    dot_rows(rows, stride, index + j, count - j, v[r], width, out[r] + j);
  }
}

}  // namespace detail
}  // namespace prototag
