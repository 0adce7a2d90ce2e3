// Algorithm 2, semantic update: an l1-regularized squared-hinge problem over the codes for each tag.

#include <algorithm>
#include <cmath>
#include <vector>

#include "coordinate_descent/coordinate_descent.hpp"

namespace prototag {
namespace {

// Half the derivative and half the curvature of the loss at d, for scores moved by a (d - start).
struct Slope {
  double value, curvature;
};

Slope slope_at(std::int64_t count, const double* a, const double* score, const char* y,
               const TagLoss& loss, double shift) {
  double value = 0, curvature = 0;
  for (std::int64_t i = 0; i < count; ++i) {
    const double gap = score[i] + a[i] * shift - (y[i] ? loss.present : loss.absent);
    const bool paid = !loss.hinge || (y[i] ? gap < 0 : gap > 0);
    const double used = paid ? a[i] : 0.0;
    value += used * gap;
    curvature += used * used;
  }
  return {value, curvature};
}

}  // namespace

// Newton's method with a bracket: the derivative is piecewise linear and non-decreasing, so a step within
// a piece is exact, and the bracket prevents cycling between pieces.
double minimize_coordinate(std::int64_t count, const double* a, const double* score, const char* y,
                const TagLoss& loss, double start, double beta1, double rho, double anchor,
                double upper) {
  double low = 0, high = upper, d = std::clamp(start, low, high);
  bool low_known = false, high_known = false;
  for (int round = 0; round < 100; ++round) {
    const Slope slope = slope_at(count, a, score, y, loss, d - start);
    const double derivative = slope.value + beta1 / 2 + rho * (d - anchor);
    const double curvature = slope.curvature + rho;
    if (derivative > 0) {
      high = d, high_known = true;
    } else {
      low = d, low_known = true;
    }
    if (derivative == 0 || high <= low) break;
    // If only beta1 contributes, d falls to the lower end of the bracket.
    const double newton = curvature > 0 ? d - derivative / curvature : low;
    if (std::abs(newton - d) <= 1e-9 * (1 + std::abs(d))) break;
    const bool stays = (newton > low || !low_known) && (newton < high || !high_known);
    d = stays ? std::clamp(newton, low, high) : 0.5 * (low + high);
  }
  return d;
}

void semantic_sweeps(std::int64_t n, std::int64_t k, std::int64_t tags,
                     const Sparse<float>& codes_by_column, const Sparse<float>& codes_by_row,
                     const Sparse<float>& tags_by_column, const std::int32_t* order,
                     const TagLoss& loss, const SemanticStep& step, float* S, double* objective) {
  std::vector<double> score(n), a, s;
  std::vector<char> present(n, 0), movable(k), y;
  std::vector<float> anchor(k);
  for (std::int64_t tag = 0; tag < tags; ++tag) {
    float* d = S + tag * k;
    std::copy(d, d + k, anchor.begin());
    std::fill(score.begin(), score.end(), 0.0);
    for (std::int64_t j = 0; j < k; ++j) {
      movable[j] = d[j] != 0;
      if (!movable[j]) continue;
      for (auto e = codes_by_column.start[j]; e < codes_by_column.start[j + 1]; ++e) {
        score[codes_by_column.index[e]] += static_cast<double>(codes_by_column.value[e]) * d[j];
      }
    }
    for (auto p = tags_by_column.start[tag]; p < tags_by_column.start[tag + 1]; ++p) {
      const std::int32_t i = tags_by_column.index[p];
      present[i] = 1;
      for (auto e = codes_by_row.start[i]; e < codes_by_row.start[i + 1]; ++e) {
        movable[codes_by_row.index[e]] = 1;
      }
    }

    for (std::int64_t sweep = 0; sweep < step.sweeps; ++sweep) {
      for (std::int64_t p = 0; p < k; ++p) {
        const std::int32_t j = order[p];
        if (!movable[j]) continue;
        const std::int32_t begin = codes_by_column.start[j];
        const std::int64_t count = codes_by_column.start[j + 1] - begin;
        a.resize(count), s.resize(count), y.resize(count);
        for (std::int64_t e = 0; e < count; ++e) {
          const std::int32_t i = codes_by_column.index[begin + e];
          a[e] = codes_by_column.value[begin + e], s[e] = score[i], y[e] = present[i];
        }
        const double best = minimize_coordinate(count, a.data(), s.data(), y.data(), loss, d[j], step.beta1,
                                     step.rho, anchor[j], step.upper);
        const float value = static_cast<float>(best);
        const double move = static_cast<double>(value) - d[j];
        if (move == 0) continue;
        d[j] = value;
        for (std::int64_t e = 0; e < count; ++e) {
          score[codes_by_column.index[begin + e]] = s[e] + a[e] * move;
        }
      }
    }

    double size = 0, largest = 0;
    for (std::int64_t j = 0; j < k; ++j) {
      size += d[j];
      largest = std::max(largest, static_cast<double>(d[j]));
    }
    if (step.rescale && largest > 0) {
      // Scores are linear in the factor, so the line search is the same one-dimensional problem.
      const double factor = minimize_coordinate(n, score.data(), score.data(), present.data(), loss, 1.0,
                                     step.beta1 * size, 0.0, 1.0, step.upper / largest);
      for (std::int64_t j = 0; j < k; ++j) {
        d[j] = std::min(static_cast<float>(d[j] * factor), static_cast<float>(step.upper));
      }
      for (auto& value : score) value *= factor;
      size *= factor;
    }
    double total = step.beta1 * size;
    for (std::int64_t i = 0; i < n; ++i) {
      const double gap = score[i] - (present[i] ? loss.present : loss.absent);
      if (!loss.hinge || (present[i] ? gap < 0 : gap > 0)) total += gap * gap;
    }
    objective[tag] = total;
    for (auto p = tags_by_column.start[tag]; p < tags_by_column.start[tag + 1]; ++p) {
      present[tags_by_column.index[p]] = 0;
    }
  }
}

}  // namespace prototag
