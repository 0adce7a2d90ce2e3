// Block coordinate descent: one proximal gradient step for a group at a time, with its own step size. Sweeps over the
// groups in use alternate with sweeps over all groups.

#include "group_lasso/group_lasso.hpp"

#include <algorithm>
#include <cmath>
#include <vector>

#include "coding/cpu_dispatch.hpp"

namespace prototag {
namespace {

PROTOTAG_INLINE float soft(float value, float threshold, bool nonnegative) {
  if (nonnegative) return std::max(value - threshold, 0.0f);
  const float size = std::fabs(value) - threshold;
  return size > 0 ? std::copysign(size, value) : 0.0f;
}

struct Problem {
  std::int64_t k;
  const float* gram;
  Groups groups;
  float sparsity, ridge;
  bool nonnegative;
};

// Updates a group; returns the length of its step times its curvature. `slope` is target - a G.
PROTOTAG_INLINE float update(const Problem& p, std::int64_t g, float weight, float* a, float* slope,
                             float* fresh) {
  const std::int64_t from = p.groups.start[g], size = p.groups.start[g + 1] - from;
  const float curvature = p.groups.curvature[g];
  if (!(curvature > 0)) return 0;
  float squares = 0;
  for (std::int64_t j = 0; j < size; ++j) {
    const float value = a[from + j];
    const float free = value * (curvature - p.ridge) + slope[from + j];
    fresh[j] = soft(free, p.sparsity, p.nonnegative);
    squares += fresh[j] * fresh[j];
  }
  const float length = std::sqrt(squares);
  const float shrinkage = length > weight ? (1 - weight / length) / curvature : 0.0f;
  float moved = 0;
  for (std::int64_t j = 0; j < size; ++j) {
    const float value = fresh[j] * shrinkage, step = value - a[from + j];
    if (step == 0) continue;
    moved += step * step;
    a[from + j] = value;
    const float* row = p.gram + (from + j) * p.k;
    for (std::int64_t l = 0; l < p.k; ++l) slope[l] -= step * row[l];
  }
  return std::sqrt(moved) * curvature;
}

PROTOTAG_INLINE float solve(const Problem& p, const float* target, const float* weight,
                            std::int64_t sweeps, float tolerance, float* a, float* slope,
                            float* fresh, std::vector<std::int32_t>& used) {
  std::copy(target, target + p.k, slope);
  for (std::int64_t j = 0; j < p.k; ++j) {
    if (a[j] == 0) continue;
    const float* row = p.gram + j * p.k;
    for (std::int64_t l = 0; l < p.k; ++l) slope[l] -= a[j] * row[l];
  }
  float violation = 0;
  std::int64_t sweep = 0;
  do {
    violation = 0;
    used.clear();
    for (std::int64_t g = 0; g < p.groups.count; ++g) {
      violation = std::max(violation, update(p, g, weight[g], a, slope, fresh));
      const auto in_use = [&](float value) { return value != 0; };
      if (std::any_of(a + p.groups.start[g], a + p.groups.start[g + 1], in_use)) {
        used.push_back(static_cast<std::int32_t>(g));
      }
    }
    float rest = violation;
    while (rest > tolerance && ++sweep < sweeps) {
      rest = 0;
      for (const std::int32_t g : used) {
        rest = std::max(rest, update(p, g, weight[g], a, slope, fresh));
      }
    }
  } while (violation > tolerance && ++sweep < sweeps);
  return violation;
}

using Solve = float (*)(const Problem&, const float*, const float*, std::int64_t, float, float*,
                        float*, float*, std::vector<std::int32_t>&);

float solve_plain(const Problem& p, const float* target, const float* weight, std::int64_t sweeps,
                  float tolerance, float* a, float* slope, float* fresh,
                  std::vector<std::int32_t>& used) {
  return solve(p, target, weight, sweeps, tolerance, a, slope, fresh, used);
}

#ifdef PROTOTAG_X86
PROTOTAG_AVX2 float solve_avx2(const Problem& p, const float* target, const float* weight,
                               std::int64_t sweeps, float tolerance, float* a, float* slope,
                               float* fresh, std::vector<std::int32_t>& used) {
  return solve(p, target, weight, sweeps, tolerance, a, slope, fresh, used);
}
#endif

Solve best_solve() {
#ifdef PROTOTAG_X86
  if (instructions() != kPortable) return solve_avx2;
#endif
  return solve_plain;
}

}  // namespace

void group_lasso_codes(std::int64_t n, std::int64_t k, const float* gram, const Groups& groups,
                       const float* target, const float* weight, float sparsity, float ridge,
                       bool nonnegative, std::int64_t sweeps, float tolerance, float* codes, float* violation) {
  std::int64_t widest = 1;
  for (std::int64_t g = 0; g < groups.count; ++g) {
    widest = std::max<std::int64_t>(widest, groups.start[g + 1] - groups.start[g]);
  }
  std::vector<float> slope(k), fresh(widest);
  std::vector<std::int32_t> used;
  const Problem problem{k, gram, groups, sparsity, ridge, nonnegative};
  const Solve run = best_solve();
  for (std::int64_t i = 0; i < n; ++i) {
    violation[i] = run(problem, target + i * k, weight + i * groups.count, sweeps, tolerance,
                       codes + i * k, slope.data(), fresh.data(), used);
  }
}

}  // namespace prototag
