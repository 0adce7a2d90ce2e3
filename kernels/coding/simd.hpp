// SIMD vectors: vector extensions of GCC and Clang, or a portable implementation for other compilers (MSVC).
// `-DPROTOTAG_PLAIN` selects the portable one; `make test-plain` runs the kernels' tests with it.
#pragma once

#include <cstdint>
#include <type_traits>

#include "coding/cpu_dispatch.hpp"

#ifdef PROTOTAG_VECTORS
// Selects `yes` or `no` lane by lane.
#define PROTOTAG_WHERE(mask, yes, no) ((mask) ? (yes) : (no))
#else
#define PROTOTAG_WHERE(mask, yes, no) (prototag::where(mask, yes, no))
#endif

namespace prototag {

template <int kLanes>
struct Doubles;

#ifdef PROTOTAG_VECTORS
using Lane = float __attribute__((vector_size(32)));
template <>
struct Doubles<2> {
  using Vector = double __attribute__((vector_size(16)));
};
template <>
struct Doubles<4> {
  using Vector = double __attribute__((vector_size(32)));
};
template <>
struct Doubles<8> {
  using Vector = double __attribute__((vector_size(64)));
};

// Stores integers from -128 to 127 as bytes.
PROTOTAG_INLINE void store_bytes(const Lane& whole, std::int8_t* to) {
  using Whole = std::int32_t __attribute__((vector_size(32)));
  using Byte = std::int8_t __attribute__((vector_size(8)));
  const Byte bytes = __builtin_convertvector(__builtin_convertvector(whole, Whole), Byte);
  __builtin_memcpy(to, &bytes, sizeof bytes);
}

#else
template <typename T, int kCount>
struct Plain {
  T lane[kCount];
  T& operator[](std::int64_t i) { return lane[i]; }
  T operator[](std::int64_t i) const { return lane[i]; }
};

template <typename T, int kCount, typename Make>
PROTOTAG_INLINE Plain<T, kCount> each_lane(const Make& make) {
  Plain<T, kCount> result;
  for (int i = 0; i < kCount; ++i) result.lane[i] = make(i);
  return result;
}

#define PROTOTAG_OPERATOR(sign)                                                             \
  template <typename T, int n>                                                              \
  PROTOTAG_INLINE Plain<T, n> operator sign(const Plain<T, n>& a, const Plain<T, n>& b) {   \
    return each_lane<T, n>([&](int i) { return a.lane[i] sign b.lane[i]; });                \
  }                                                                                         \
  template <typename T, int n>                                                              \
  PROTOTAG_INLINE Plain<T, n> operator sign(const Plain<T, n>& a, T b) {                    \
    return each_lane<T, n>([&](int i) { return a.lane[i] sign b; });                        \
  }                                                                                         \
  template <typename T, int n>                                                              \
  PROTOTAG_INLINE Plain<T, n> operator sign(T a, const Plain<T, n>& b) {                    \
    return each_lane<T, n>([&](int i) { return a sign b.lane[i]; });                        \
  }                                                                                         \
  template <typename T, int n, typename Other>                                              \
  PROTOTAG_INLINE Plain<T, n>& operator sign##=(Plain<T, n>& a, const Other& b) {           \
    return a = a sign b;                                                                    \
  }
PROTOTAG_OPERATOR(+)
PROTOTAG_OPERATOR(-)
PROTOTAG_OPERATOR(*)
PROTOTAG_OPERATOR(/)
#undef PROTOTAG_OPERATOR

template <typename T, int n>
PROTOTAG_INLINE Plain<T, n> operator-(const Plain<T, n>& a) {
  return each_lane<T, n>([&](int i) { return -a.lane[i]; });
}

// Result of a comparison: -1 or 0, as wide as the operands.
template <typename T>
using Truth = std::conditional_t<sizeof(T) == 4, std::int32_t, std::int64_t>;

#define PROTOTAG_COMPARISON(sign)                                                                  \
  template <typename T, int n>                                                                     \
  PROTOTAG_INLINE Plain<Truth<T>, n> operator sign(const Plain<T, n>& a, const Plain<T, n>& b) {   \
    return each_lane<Truth<T>, n>([&](int i) { return -Truth<T>(a.lane[i] sign b.lane[i]); });     \
  }                                                                                                \
  template <typename T, int n>                                                                     \
  PROTOTAG_INLINE Plain<Truth<T>, n> operator sign(const Plain<T, n>& a, T b) {                    \
    return each_lane<Truth<T>, n>([&](int i) { return -Truth<T>(a.lane[i] sign b); });             \
  }
PROTOTAG_COMPARISON(<)
PROTOTAG_COMPARISON(>)
PROTOTAG_COMPARISON(==)
#undef PROTOTAG_COMPARISON

template <typename T, int n>
PROTOTAG_INLINE Plain<T, n> where(const Plain<Truth<T>, n>& mask, const Plain<T, n>& yes,
                                  const Plain<T, n>& no) {
  return each_lane<T, n>([&](int i) { return mask.lane[i] ? yes.lane[i] : no.lane[i]; });
}

using Lane = Plain<float, 8>;
template <int kLanes>
struct Doubles {
  using Vector = Plain<double, kLanes>;
};

PROTOTAG_INLINE void store_bytes(const Lane& whole, std::int8_t* to) {
  for (int i = 0; i < 8; ++i) to[i] = static_cast<std::int8_t>(static_cast<std::int32_t>(whole[i]));
}
#endif

}  // namespace prototag
