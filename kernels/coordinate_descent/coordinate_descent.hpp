#pragma once

#include <cstdint>

namespace prototag {

// A sparse matrix in CSR layout, or in CSC layout if named by column.
template <typename Value>
struct Sparse {
  const std::int32_t* start;
  const std::int32_t* index;
  const Value* value;
};

// Minimizes sum_i p_i ||x_i - a_i D||^2 over one visual prototype at a time, in the given order, on the
// unit ball or the unit sphere (block coordinate descent).
//   gram     A^T P A, k x k, by rows
//   target   A^T P X, k x m
//   D        k x m, changed in place
// Returns the largest change of a coordinate.
double visual_sweep(std::int64_t k, std::int64_t m, const Sparse<float>& gram, const float* target,
                    const std::int32_t* order, bool sphere, float* D);

// The loss of the tags, max(0, .)^2 on the wrong side of a target, or (.)^2 on both sides.
struct TagLoss {
  double present, absent;  // targets: tau + C and tau - C
  bool hinge;
};

struct SemanticStep {
  double beta1, rho, upper;  // sparsity, proximal weight, upper bound
  std::int64_t sweeps;
  bool rescale;             // end with a line search over a factor of the whole tag
};

// Runs cyclic coordinate descent for each tag of a batch on
//   sum_i loss(y_i, a_i s) + beta1 sum(s) + rho ||s - s_start||^2,   0 <= s <= upper,
// with exact minimization over each coordinate that is non-zero or has a positive image.
//   codes_by_column  A, n x k
//   codes_by_row     the same, by rows (values unused)
//   tags_by_column   Y of the batch, by columns: the images that have each tag
//   S                tags x k, changed in place
//   objective        tags: the loss + beta1 part at the end
void semantic_sweeps(std::int64_t n, std::int64_t k, std::int64_t tags,
                     const Sparse<float>& codes_by_column, const Sparse<float>& codes_by_row,
                     const Sparse<float>& tags_by_column, const std::int32_t* order,
                     const TagLoss& loss, const SemanticStep& step, float* S, double* objective);

// Returns the exact minimizer of the one-dimensional problem above over 0 <= d <= upper, for `count`
// images with coefficients a, scores `score` at d = start, and tags y.
double minimize_coordinate(std::int64_t count, const double* a, const double* score, const char* y,
                const TagLoss& loss, double start, double beta1, double rho, double anchor,
                double upper);

}  // namespace prototag
