// Comparison of 64 numbers with a bound as a bit mask, for each instruction set.
#pragma once

#include <cstdint>

#include "coding/cpu_dispatch.hpp"

#ifdef PROTOTAG_X86
#include <immintrin.h>
#endif

namespace prototag {

using Mask = std::uint64_t;

struct Portable {
  static PROTOTAG_INLINE Mask at_least(const float* v, float bound) {
    Mask mask = 0;
    for (int j = 0; j < 64; ++j) mask |= static_cast<Mask>(v[j] >= bound) << j;
    return mask;
  }
  // Includes NaN.
  static PROTOTAG_INLINE Mask not_at_most(const float* v, float bound) {
    Mask mask = 0;
    for (int j = 0; j < 64; ++j) mask |= static_cast<Mask>(!(v[j] <= bound)) << j;
    return mask;
  }
};

#ifdef PROTOTAG_X86
struct Avx2 {
  PROTOTAG_AVX2 static inline Mask at_least(const float* v, float bound) {
    Mask mask = 0;
    for (int p = 0; p < 8; ++p) {
      const __m256 c = _mm256_cmp_ps(_mm256_loadu_ps(v + 8 * p), _mm256_set1_ps(bound), _CMP_GE_OQ);
      mask |= static_cast<Mask>(static_cast<unsigned>(_mm256_movemask_ps(c))) << (8 * p);
    }
    return mask;
  }
  PROTOTAG_AVX2 static inline Mask not_at_most(const float* v, float bound) {
    Mask mask = 0;
    for (int p = 0; p < 8; ++p) {
      const __m256 c =
          _mm256_cmp_ps(_mm256_loadu_ps(v + 8 * p), _mm256_set1_ps(bound), _CMP_NLE_UQ);
      mask |= static_cast<Mask>(static_cast<unsigned>(_mm256_movemask_ps(c))) << (8 * p);
    }
    return mask;
  }
};

struct Avx512 {
  PROTOTAG_AVX512 static inline Mask at_least(const float* v, float bound) {
    Mask mask = 0;
    for (int p = 0; p < 4; ++p) {
      mask |= static_cast<Mask>(_mm512_cmp_ps_mask(_mm512_loadu_ps(v + 16 * p),
                                                   _mm512_set1_ps(bound), _CMP_GE_OQ))
              << (16 * p);
    }
    return mask;
  }
  PROTOTAG_AVX512 static inline Mask not_at_most(const float* v, float bound) {
    Mask mask = 0;
    for (int p = 0; p < 4; ++p) {
      mask |= static_cast<Mask>(_mm512_cmp_ps_mask(_mm512_loadu_ps(v + 16 * p),
                                                   _mm512_set1_ps(bound), _CMP_NLE_UQ))
              << (16 * p);
    }
    return mask;
  }
};
#endif

#ifdef PROTOTAG_VECTORS
PROTOTAG_INLINE std::int64_t lowest(Mask mask) { return __builtin_ctzll(mask); }
#else
// De Bruijn sequence: the isolated lowest bit times this number has a unique index in its top six bits.
inline std::int64_t lowest(Mask mask) {
  static constexpr unsigned char kPlace[64] = {
      0,  1,  2,  53, 3,  7,  54, 27, 4,  38, 41, 8,  34, 55, 48, 28, 62, 5,  39, 46, 44, 42,
      22, 9,  24, 35, 59, 56, 49, 18, 29, 11, 63, 52, 6,  26, 37, 40, 33, 47, 61, 45, 43, 21,
      23, 58, 17, 10, 51, 25, 36, 32, 60, 20, 57, 16, 50, 31, 19, 15, 30, 14, 13, 12};
  return kPlace[((mask & (~mask + 1)) * 0x022fdd63cc95386dull) >> 58];
}
#endif

// Visits the positions of the set bits, lowest first.
template <typename Visit>
PROTOTAG_INLINE void each(Mask mask, const Visit& visit) {
  for (; mask; mask &= mask - 1) visit(lowest(mask));
}

}  // namespace prototag
