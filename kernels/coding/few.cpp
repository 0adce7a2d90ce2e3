// The rounds of the coder for one image at a time.

#include "coding/few.hpp"

#include <algorithm>
#include <limits>
#include <numeric>
#include <vector>

#include "coding/dot.hpp"
#include "coding/screen.hpp"

namespace prototag {
namespace {

#ifdef PROTOTAG_AVX2
__attribute__((target("avx2,fma"))) void correlate_avx2(const Dictionary& z,
                                                        const std::vector<std::int32_t>& every,
                                                        const float* v, float* out) {
  detail::dot_rows(z.rows, z.visual, every.data(), z.count, v, z.visual, out);
}
#endif

void correlate(const Dictionary& z, const std::vector<std::int32_t>& every, const float* v,
               float* out) {
#ifdef PROTOTAG_AVX2
  if (has_avx2()) return correlate_avx2(z, every, v, out);
#endif
  detail::dot_rows(z.rows, z.visual, every.data(), z.count, v, z.visual, out);
}

}  // namespace

void encode_few(const Dictionary& z, const Limits& limits, const float* targets,
                const float* hints, std::int64_t n, std::int64_t width, std::int64_t core,
                double tie, const Codes& codes, float* largest) {
  const std::int64_t m = z.visual, cap = limits.max_nonzeros;
  std::vector<std::int32_t> every(z.count), candidate(4 * width), before(cap);
  std::iota(every.begin(), every.end(), 0);
  std::vector<float> correlation(z.count);
  std::vector<Key> key(2 * width);
  for (std::int64_t i = 0; i < n; ++i) {
    correlate(z, every, hints + i * m, correlation.data());
    std::int32_t keys = 0, count = 0;
    float floor = 0;
    screen(correlation.data(), 1, z.count, 0, width, key.data(), &keys, 2 * width, &floor);
    settle(key.data(), &keys, 2 * width, 1, width, {candidate.data(), &count, 4 * width, core});
    const Codes own{codes.index + i * cap, codes.value + i * cap, codes.count + i,
                    codes.lambda + i,      codes.ending + i,      codes.residual + i * m,
                    codes.fit + i};
    float lambda_before = -1;
    std::int32_t count_before = -1;
    while (true) {
      const std::int64_t room = static_cast<std::int64_t>(candidate.size());
      const Candidates all{candidate.data(), &count, room, core};
      std::fill(own.value, own.value + cap, 0.0f);  // a shorter code leaves nothing of a longer one
      lars(z, limits, targets + i * m, nullptr, 1, all, own);
      const float lambda = *own.lambda;
      // Where what came near changed nothing, the certificate of the round before still holds.
      if (lambda == lambda_before && *own.count == count_before &&
          std::equal(before.begin(), before.begin() + count_before, own.index) &&
          largest[i] <= lambda * (1 + tie) + tie / 10) {
        break;
      }
      lambda_before = lambda, count_before = *own.count;
      std::copy(own.index, own.index + count_before, before.begin());
      correlate(z, every, own.residual, correlation.data());
      std::int32_t added = 0;
      largest[i] = -std::numeric_limits<float>::infinity();
      const double near = *own.ending == kCap ? limits.near : 1 - tie;
      const float bound = static_cast<float>(near * lambda - tie / 10);
      violators(correlation.data(), 1, z.count, 0, nullptr, &bound, all, &added, &largest[i]);
      if (!added) break;
      if (count == room) candidate.resize(2 * room);
    }
  }
}

}  // namespace prototag
