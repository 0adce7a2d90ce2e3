#pragma once

#include <cstdint>

#include "coding/int8_quantization.hpp"

namespace prototag {

// The prototypes of a coder: rows [d_k | s_k] of `visual + labels` floats. For visual coding
// `labels` is 0. The Gram matrices are optional (null: inner products are computed when needed).
struct Dictionary {
  const float* rows;
  std::int64_t count, visual, labels;
  const float* visual_gram;  // D D^T, count x count
  const float* label_gram;   // S S^T, count x count
  const float* weights;      // omega_k > 0 of the budget sum(omega_k a_k) <= beta0; null: all 1
};

struct Limits {
  double budget;              // beta0
  const double* budgets;      // n: of each image its own; may be null
  std::int64_t max_nonzeros;  // cap on the non-zeros of a code
  // A path that the cap cuts, or nearly cuts, could have run otherwise though its end is optimal: a
  // prototype might have come and gone. Those whose correlation exceeds `near` lambda at its end are
  // tried too.
  double near;
};

// What ended the path of an image.
enum Ending : std::int8_t { kBudget = 0, kOptimum = 1, kCap = 2, kStalled = 3 };

// How prototypes are chosen for the paths: by products with a guess of the residual, or given.
struct Search {
  const float* hints;           // n x (visual + labels), guesses of the residuals; null: given
  const std::int32_t* index;    // n x room, candidates that are given
  const std::int32_t* count;    // n
  std::int64_t room;
  const std::int64_t* own;      // n: a prototype that the image must not use, or -1; may be null
  std::int64_t width, core;     // candidates at hand, and followed at once
  double tie;                   // relative difference up to which correlations are equal
  bool certify;                 // check the ends over all prototypes
};

struct Codes {               // one row per image
  std::int32_t* index;       // n x max_nonzeros
  float* value;              // n x max_nonzeros
  std::int32_t* count;       // n
  float* lambda;             // correlation of the active prototypes with the residual (over omega)
  std::int8_t* ending;       // n
  float* residual;           // n x (visual + labels): [x - a D | weight (target - a S)]
  double* fit;               // n: (a Z) . residual, so that a . correlation need not be summed again
  float* largest;            // n: at least the largest correlation over all prototypes, if certified
};

// Screen, follow the paths of the non-negative lasso, and certify their ends; what violates
// optimality joins the candidates, and the path is followed again.
//   targets     n x (visual + labels): [x_i | working target_i]
//   weight      n: lam / p_i, the weight of the label part; ignored when labels is 0
void encode(const Dictionary& dictionary, const Compact& compact, const Limits& limits,
            const Search& search, const float* targets, const float* weight, std::int64_t n,
            const Codes& codes);

}  // namespace prototag
