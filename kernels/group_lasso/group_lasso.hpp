// Sparse codes with a penalty on groups of atoms (sparse group lasso).
#pragma once

#include <cstdint>

namespace prototag {

// The atoms of group g are start[g] to start[g + 1] - 1; curvature[g] is the largest eigenvalue of its part of the
// Gram matrix plus the ridge penalty.
struct Groups {
  const std::int32_t* start;
  const float* curvature;
  std::int64_t count;
};

// Minimizes for each of n images, from the codes that are given and in place,
//     1/2 a G a' - a target' + sparsity |a|_1 + sum_g weight[g] |a_g|_2 + ridge/2 |a|^2
// over all codes, or over non-negative ones, by block coordinate descent. `violation` is the largest step of the last sweep over all groups, as a gradient.
void group_lasso_codes(std::int64_t n, std::int64_t k, const float* gram, const Groups& groups,
                       const float* target, const float* weight, float sparsity, float ridge,
                       bool nonnegative, std::int64_t sweeps, float tolerance, float* codes, float* violation);

}  // namespace prototag
