// Algorithm 2, visual update: block coordinate descent over prototypes from sums over images.

#include <algorithm>
#include <cmath>
#include <vector>

#include "coding/dot_product.hpp"
#include "coordinate_descent/coordinate_descent.hpp"

namespace prototag {
namespace {

PROTOTAG_INLINE double sweep_all(std::int64_t k, std::int64_t m, const Sparse<float>& gram,
                                 const float* target, const std::int32_t* order, bool sphere,
                                 float* D) {
  std::vector<float> sum(m);
  double change = 0;
  for (std::int64_t p = 0; p < k; ++p) {
    const std::int64_t own = order[p];
    double diagonal = 0;
    std::copy(target + own * m, target + (own + 1) * m, sum.begin());
    for (std::int32_t e = gram.start[own]; e < gram.start[own + 1]; ++e) {
      const std::int64_t other = gram.index[e];
      const float g = gram.value[e];
      if (other == own) {
        diagonal = g;
        continue;
      }
      const float* d = D + other * m;
      for (std::int64_t c = 0; c < m; ++c) sum[c] -= g * d[c];
    }
    if (!(diagonal > 0)) continue;  // unused prototypes stay
    double squared = 0;
    for (std::int64_t c = 0; c < m; ++c) squared += static_cast<double>(sum[c]) * sum[c];
    const double length = std::sqrt(squared);
    // The minimizer sum / diagonal is projected onto the ball or the sphere.
    const double divisor = sphere ? length : std::max(diagonal, length);
    if (!(divisor > 0)) continue;
    float* d = D + own * m;
    for (std::int64_t c = 0; c < m; ++c) {
      const float value = static_cast<float>(sum[c] / divisor);
      change = std::max(change, static_cast<double>(std::abs(value - d[c])));
      d[c] = value;
    }
  }
  return change;
}

#ifdef PROTOTAG_X86
PROTOTAG_AVX2 double sweep_avx2(std::int64_t k, std::int64_t m,
                                                      const Sparse<float>& gram,
                                                      const float* target,
                                                      const std::int32_t* order, bool sphere,
                                                      float* D) {
  return sweep_all(k, m, gram, target, order, sphere, D);
}
#endif

}  // namespace

double visual_sweep(std::int64_t k, std::int64_t m, const Sparse<float>& gram, const float* target,
                    const std::int32_t* order, bool sphere, float* D) {
#ifdef PROTOTAG_X86
  if (instructions() != kPortable) return sweep_avx2(k, m, gram, target, order, sphere, D);
#endif
  return sweep_all(k, m, gram, target, order, sphere, D);
}

}  // namespace prototag
