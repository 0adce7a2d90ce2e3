// Linear support vector machines with the hinge loss, for many tags on the same images.
#pragma once

#include <cstdint>

namespace prototag {

// Minimizes for each tag, with z = 1 where the tag is present and -1 elsewhere,
//     1/2 |w|^2 + sum_i upper_i max(0, margin_i - z_i x_i w)
// by coordinate descent on the dual variables 0 <= alpha_i <= upper_i, from alpha and w = sum_i alpha_i z_i x_i that
// are given and in place. Images are visited in the given order. `violation` is the width of the projected gradient
// in the last epoch over all images.
void dual_svm(std::int64_t n, std::int64_t m, std::int64_t tags, const float* X,
              const bool* present, const float* upper, const float* margin,
              const std::int32_t* order, std::int64_t epochs, float tolerance, float* alpha,
              float* w, float* violation);

}  // namespace prototag
