#pragma once

#include <cstdint>

namespace prototag {

// A sparse matrix by rows, or by columns when so named.
template <typename Value>
struct Sparse {
  const std::int32_t* start;
  const std::int32_t* index;
  const Value* value;
};

// One sweep over the visual prototypes, in the given order: each becomes the minimiser of
// sum_i p_i ||x_i - a_i D||^2 given the others, on the unit ball or on the unit sphere.
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
  double beta1, rho, most;  // sparsity, pull towards the start, upper end of the box
  std::int64_t sweeps;
  bool rescale;             // end with the best factor for the whole tag
};

// For each tag of a block, cyclic coordinate descent on
//   sum_i loss(y_i, a_i s) + beta1 sum(s) + rho ||s - s_start||^2,   0 <= s <= most,
// every coordinate solved exactly, over the prototypes that are in use or have a positive member.
//   codes_by_column  A, n x k
//   codes_by_row     the same, by rows (values unused)
//   tags_by_column   Y of the block, by columns: the images that have each tag
//   S                tags x k, changed in place
//   objective        tags: the loss + beta1 part at the end
void semantic_sweeps(std::int64_t n, std::int64_t k, std::int64_t tags,
                     const Sparse<float>& codes_by_column, const Sparse<float>& codes_by_row,
                     const Sparse<float>& tags_by_column, const std::int32_t* order,
                     const TagLoss& loss, const SemanticStep& step, float* S, double* objective);

// The exact minimiser of the one-dimensional problem above over 0 <= d <= most, for `count` images
// with coefficients a, scores `score` at d = start, and y.
double minimise(std::int64_t count, const double* a, const double* score, const char* y,
                const TagLoss& loss, double start, double beta1, double rho, double anchor,
                double most);

}  // namespace prototag
