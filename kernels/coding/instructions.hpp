// Which instructions the kernels use: decided here and nowhere else.
#pragma once

#include <cstdint>

#ifndef __GNUC__
#error "prototag needs GCC or Clang (clang-cl on Windows): its kernels use their vector types."
#endif
#ifndef __has_builtin
#define __has_builtin(name) 0
#endif
#ifdef __x86_64__
#define PROTOTAG_X86 1
#define PROTOTAG_AVX2 __attribute__((target("avx2,fma")))
#define PROTOTAG_AVX512 \
  __attribute__((target("avx2,fma,avx512f,avx512bw,avx512dq,avx512vl,avx512vnni")))
#endif
#define PROTOTAG_INLINE __attribute__((always_inline)) inline

namespace prototag {

enum Instructions : int { kPortable = 0, kAvx2 = 1, kAvx512 = 2 };

// The widest that this machine has, or what was asked for if that is less.
Instructions instructions();

// Ask for less than the machine has (tests); what it has not is not given.
void ask_for(Instructions wanted);

}  // namespace prototag
