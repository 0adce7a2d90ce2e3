#pragma once

#include <cstdint>

#include "coding/lars.hpp"

namespace prototag {

// Screen, follow and certify a few images one by one, without a matrix product: what a batch does
// through BLAS, for callers who have one image at a time.
//   targets, hints  n x visual: the images, and guesses of their residuals to screen by
//   width, core     candidates at hand, and followed at once
//   tie             relative difference up to which correlations are equal
//   largest         n: largest correlation with the residual over all prototypes
void encode_few(const Dictionary& dictionary, const Limits& limits, const float* targets,
                const float* hints, std::int64_t n, std::int64_t width, std::int64_t core,
                double tie, const Codes& codes, float* largest);

}  // namespace prototag
