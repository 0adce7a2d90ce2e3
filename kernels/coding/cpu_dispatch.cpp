#include "coding/cpu_dispatch.hpp"

#include <algorithm>
#include <atomic>
#include <cstdlib>
#include <cstring>

namespace prototag {
namespace {

Instructions widest() {
#ifdef PROTOTAG_X86
  __builtin_cpu_init();
  if (!__builtin_cpu_supports("avx2") || !__builtin_cpu_supports("fma")) return kPortable;
  const bool wide = __builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512bw") &&
                    __builtin_cpu_supports("avx512dq") && __builtin_cpu_supports("avx512vl") &&
                    __builtin_cpu_supports("avx512vnni");
  return wide ? kAvx512 : kAvx2;
#else
  return kPortable;
#endif
}

// PROTOTAG_INSTRUCTIONS=portable or avx2 limits the instruction set, to test the code of other machines.
Instructions at_start() {
  const char* asked = std::getenv("PROTOTAG_INSTRUCTIONS");
  if (asked && !std::strcmp(asked, "portable")) return kPortable;
  if (asked && !std::strcmp(asked, "avx2")) return std::min(kAvx2, widest());
  return widest();
}

std::atomic<int>& chosen() {
  static std::atomic<int> level{at_start()};
  return level;
}

}  // namespace

Instructions instructions() {
  return static_cast<Instructions>(chosen().load(std::memory_order_relaxed));
}

void limit_instructions(Instructions wanted) { chosen() = std::min(wanted, widest()); }

}  // namespace prototag
