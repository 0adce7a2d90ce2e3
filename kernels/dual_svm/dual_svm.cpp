// Dual coordinate descent with shrinking: images whose variable stays at a bound leave the epochs, and return before
// the end.

#include "dual_svm/dual_svm.hpp"

#include <algorithm>
#include <cmath>
#include <limits>
#include <vector>

#include "coding/dot_product.hpp"

namespace prototag {
namespace {

using detail::Lane;

PROTOTAG_INLINE float dot(const float* a, const float* b, std::int64_t m) {
  const std::int64_t body = m - m % 32;
  Lane s0{}, s1{}, s2{}, s3{};
  for (std::int64_t i = 0; i < body; i += 32) {
    Lane a0, a1, a2, a3, b0, b1, b2, b3;
    detail::load(a0, a + i), detail::load(a1, a + i + 8);
    detail::load(a2, a + i + 16), detail::load(a3, a + i + 24);
    detail::load(b0, b + i), detail::load(b1, b + i + 8);
    detail::load(b2, b + i + 16), detail::load(b3, b + i + 24);
    s0 += a0 * b0, s1 += a1 * b1, s2 += a2 * b2, s3 += a3 * b3;
  }
  s0 += s1, s2 += s3, s0 += s2;
  return detail::sum(s0) + detail::tail(a, b, body, m);
}

struct Problem {
  std::int64_t n, m;
  const float* X;
  const float* squares;
  const std::int32_t* order;
  std::int64_t epochs;
  float tolerance;
};

PROTOTAG_INLINE float solve(const Problem& p, const bool* present, const float* upper,
                            const float* margin, float* alpha, float* w, std::int32_t* active) {
  const float infinity = std::numeric_limits<float>::infinity();
  std::copy(p.order, p.order + p.n, active);
  std::int64_t size = p.n;
  float highest_before = infinity, lowest_before = -infinity, violation = 0;
  for (std::int64_t epoch = 0; epoch < p.epochs; ++epoch) {
    float highest = -infinity, lowest = infinity;
    const bool complete = size == p.n;
    for (std::int64_t position = 0; position < size;) {
      const std::int32_t i = active[position];
      const float* x = p.X + i * p.m;
      const float z = present[i] ? 1.0f : -1.0f;
      const float gradient = z * dot(w, x, p.m) - margin[i];
      float projected = gradient;
      bool leaves = false;
      if (alpha[i] <= 0) {
        leaves = gradient > highest_before;
        projected = std::min(gradient, 0.0f);
      }
      if (alpha[i] >= upper[i]) {
        leaves = leaves || upper[i] <= 0 || gradient < lowest_before;
        projected = std::max(projected, 0.0f);
      }
      if (leaves) {
        active[position] = active[--size];
        active[size] = i;
        continue;
      }
      ++position;
      highest = std::max(highest, projected);
      lowest = std::min(lowest, projected);
      if (projected == 0 || p.squares[i] <= 0) continue;
      const float value = std::clamp(alpha[i] - gradient / p.squares[i], 0.0f, upper[i]);
      const float step = (value - alpha[i]) * z;
      alpha[i] = value;
      for (std::int64_t j = 0; j < p.m; ++j) w[j] += step * x[j];
    }
    const float width = size ? highest - lowest : 0.0f;
    if (complete) violation = width;
    if (width <= p.tolerance) {
      if (complete) break;
      size = p.n;
      highest_before = infinity, lowest_before = -infinity;
      continue;
    }
    highest_before = highest > 0 ? highest : infinity;
    lowest_before = lowest < 0 ? lowest : -infinity;
  }
  return violation;
}

using Solve = float (*)(const Problem&, const bool*, const float*, const float*, float*, float*,
                        std::int32_t*);

float solve_plain(const Problem& p, const bool* present, const float* upper, const float* margin,
                  float* alpha, float* w, std::int32_t* active) {
  return solve(p, present, upper, margin, alpha, w, active);
}

#ifdef PROTOTAG_X86
PROTOTAG_AVX2 float solve_avx2(const Problem& p, const bool* present, const float* upper,
                               const float* margin, float* alpha, float* w, std::int32_t* active) {
  return solve(p, present, upper, margin, alpha, w, active);
}
#endif

Solve best_solve() {
#ifdef PROTOTAG_X86
  if (instructions() != kPortable) return solve_avx2;
#endif
  return solve_plain;
}

}  // namespace

void dual_svm(std::int64_t n, std::int64_t m, std::int64_t tags, const float* X,
              const bool* present, const float* upper, const float* margin,
              const std::int32_t* order, std::int64_t epochs, float tolerance, float* alpha,
              float* w, float* violation) {
  std::vector<float> squares(n);
  for (std::int64_t i = 0; i < n; ++i) {
    double sum = 0;
    for (std::int64_t j = 0; j < m; ++j) sum += double(X[i * m + j]) * X[i * m + j];
    squares[i] = static_cast<float>(sum);
  }
  std::vector<std::int32_t> active(n);
  const Problem problem{n, m, X, squares.data(), order, epochs, tolerance};
  const Solve run = best_solve();
  for (std::int64_t c = 0; c < tags; ++c) {
    violation[c] = run(problem, present + c * n, upper + c * n, margin + c * n, alpha + c * n,
                       w + c * m, active.data());
  }
}

}  // namespace prototag
