// Inner products of one vector with chosen rows of a matrix, the innermost loop of every coder.
// The default build targets the plain architecture; on x86-64 an AVX2 copy is chosen at run time.
#pragma once

#include <cstdint>
#include <cstring>

#ifndef __GNUC__
#error "prototag needs GCC or Clang (clang-cl on Windows): its kernels use their vector types."
#endif
#ifdef __x86_64__
#define PROTOTAG_AVX2 1
#endif

namespace prototag {

#ifdef PROTOTAG_AVX2
inline bool has_avx2() {
  static const bool has = __builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma");
  return has;
}
#endif

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

using Lane = float __attribute__((vector_size(32)));
#define PROTOTAG_INLINE __attribute__((always_inline)) inline
PROTOTAG_INLINE void load(Lane& lane, const float* p) { std::memcpy(&lane, p, sizeof lane); }

// The largest of `count` lanes of eight.
PROTOTAG_INLINE float largest(const float* values, int count) {
  Lane best;
  load(best, values);
  for (int i = 1; i < count; ++i) {
    Lane next;
    load(next, values + 8 * i);
    best = next > best ? next : best;
  }
  float four[4];
  for (int i = 0; i < 4; ++i) four[i] = best[i] > best[i + 4] ? best[i] : best[i + 4];
  const float a = four[0] > four[2] ? four[0] : four[2], b = four[1] > four[3] ? four[1] : four[3];
  return a > b ? a : b;
}

PROTOTAG_INLINE float sum(const Lane& s) {
  return ((s[0] + s[4]) + (s[2] + s[6])) + ((s[1] + s[5]) + (s[3] + s[7]));
}

// Every row is summed in the same order whatever its neighbours are, so that a product depends on
// its two vectors alone: the same image gives the same bits alone and in a batch.
PROTOTAG_INLINE void dot_rows(const float* rows, std::int64_t stride, const std::int32_t* index,
                              std::int64_t count, const float* v, std::int64_t width, float* out) {
  const std::int64_t body = width - width % 8;
  std::int64_t j = 0;
  for (; j + 4 <= count; j += 4) {
    for (std::int64_t next = j + 4; next < j + 8 && next < count; ++next) {
      const char* row = reinterpret_cast<const char*>(rows + index[next] * stride);
      for (std::int64_t line = 0; line < 4 * width; line += 64) __builtin_prefetch(row + line);
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
    float t0 = sum(s0), t1 = sum(s1), t2 = sum(s2), t3 = sum(s3);
    for (std::int64_t i = body; i < width; ++i) {
      t0 += r0[i] * v[i], t1 += r1[i] * v[i], t2 += r2[i] * v[i], t3 += r3[i] * v[i];
    }
    out[j] = t0, out[j + 1] = t1, out[j + 2] = t2, out[j + 3] = t3;
  }
  for (; j < count; ++j) {
    const float* r0 = rows + index[j] * stride;
    Lane s0{};
    for (std::int64_t i = 0; i < body; i += 8) {
      Lane x, a;
      load(x, v + i), load(a, r0 + i);
      s0 += a * x;
    }
    float t0 = sum(s0);
    for (std::int64_t i = body; i < width; ++i) t0 += r0[i] * v[i];
    out[j] = t0;
  }
}

// Three rows by four vectors: twelve sums stay in registers, so that the products, not the loads,
// set the pace.
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
    const float sums[4][3] = {{sum(a0), sum(b0), sum(c0)},
                              {sum(a1), sum(b1), sum(c1)},
                              {sum(a2), sum(b2), sum(c2)},
                              {sum(a3), sum(b3), sum(c3)}};
    for (int r = 0; r < 4; ++r) {
      float s0 = sums[r][0], s1 = sums[r][1], s2 = sums[r][2];
      for (std::int64_t i = body; i < width; ++i) {
        s0 += r0[i] * v[r][i], s1 += r1[i] * v[r][i], s2 += r2[i] * v[r][i];
      }
      float* o = out[r] + j;
      o[0] = s0, o[1] = s1, o[2] = s2;
    }
  }
  for (int r = 0; r < 4; ++r) {
    dot_rows(rows, stride, index + j, count - j, v[r], width, out[r] + j);
  }
}

}  // namespace detail
}  // namespace prototag
