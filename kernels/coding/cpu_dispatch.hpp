// Run-time selection of the instruction set, for all kernels.
#pragma once

#include <cstdint>

// Vector extensions, function targets and prefetches need GCC or Clang. Other compilers (MSVC, clang-cl) compile the
// portable code.
#if defined(__GNUC__) && !defined(PROTOTAG_PLAIN)
#define PROTOTAG_VECTORS 1
#endif
#ifndef __has_builtin
#define __has_builtin(name) 0
#endif
#if defined(PROTOTAG_VECTORS) && defined(__x86_64__)
#define PROTOTAG_X86 1
#define PROTOTAG_AVX2 __attribute__((target("avx2,fma")))
#define PROTOTAG_AVX512 \
  __attribute__((target("avx2,fma,avx512f,avx512bw,avx512dq,avx512vl,avx512vnni")))
#endif
#ifdef PROTOTAG_VECTORS
#define PROTOTAG_INLINE __attribute__((always_inline)) inline
#define PROTOTAG_APART __attribute__((noinline)) inline
#define PROTOTAG_PREFETCH(place) __builtin_prefetch(place)
#else
#define PROTOTAG_INLINE inline
#ifdef _MSC_VER
#define PROTOTAG_APART __declspec(noinline) inline
#else
#define PROTOTAG_APART inline
#endif
#define PROTOTAG_PREFETCH(place) static_cast<void>(place)
#endif

namespace prototag {

enum Instructions : int { kPortable = 0, kAvx2 = 1, kAvx512 = 2 };

// Returns the widest instruction set of this machine, or a lower limit that was set.
Instructions instructions();

// Limits the instruction set, for tests; a set that the machine lacks is never selected.
void limit_instructions(Instructions wanted);

}  // namespace prototag
