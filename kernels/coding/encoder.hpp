#pragma once

#include <cstdint>

#include "coding/int8_quantization.hpp"

namespace prototag {

// Prototypes as rows [d_k | s_k] of `visual + labels` floats; `labels` is 0 in visual coding. The Gram
// matrices are optional; without them inner products are computed on demand.
struct Dictionary {
  const float* rows;
  std::int64_t count, visual, labels;
  const float* visual_gram;  // D D^T, count x count
  const float* label_gram;   // S S^T, count x count
  const float* weights;      // omega_k > 0 of the budget sum(omega_k a_k) <= beta0; null: all 1
};

struct Limits {
  double budget;              // beta0
  const double* budgets;      // n: budget of each image; may be null
  std::int64_t max_nonzeros;  // cap on the non-zeros of a code
  // A path that (nearly) reaches the cap may differ from the exact one although its end is optimal: a
  // prototype might have entered and left. Prototypes whose correlation exceeds `near` lambda at the
  // end of such a path are therefore added as candidates.
  double near;
};

// Event that ended the path of an image.
enum Ending : std::int8_t { kBudget = 0, kOptimum = 1, kCap = 2, kStalled = 3 };

// Selection of candidates: by products with predicted residuals, or given by the caller.
struct Search {
  const float* hints;           // n x (visual + labels), predicted residuals; null: candidates are given
  const std::int32_t* index;    // n x room, given candidates
  const std::int32_t* count;    // n
  std::int64_t room;
  const std::int64_t* excluded;     // n: a prototype that the image must not use, or -1; may be null
  std::int64_t width, core;     // number of candidates, and those in the first path
  double tie;                   // relative difference up to which correlations count as equal
  bool certify;                 // check the ends of paths over all prototypes
};

struct Codes {               // one row per image
  std::int32_t* index;       // n x max_nonzeros
  float* value;              // n x max_nonzeros
  std::int32_t* count;       // n
  float* lambda;             // correlation of the active prototypes with the residual (over omega)
  std::int8_t* ending;       // n
  float* residual;           // n x (visual + labels): [x - a D | weight (target - a S)]
  double* fit;               // n: (a Z) . residual, which equals a . correlation
  float* largest;            // n: at least the largest correlation over all prototypes, if certified
};

// Solves the non-negative lasso by screening, LARS and certification: prototypes that violate the
// optimality conditions become candidates, and the path is computed again.
//   targets     n x (visual + labels): [x_i | working target_i]
//   weight      n: lam / p_i, the weight of the label part; ignored when labels is 0
void encode(const Dictionary& dictionary, const Int8Prototypes& int8, const Limits& limits,
            const Search& search, const float* targets, const float* weight, std::int64_t n,
            const Codes& codes);

}  // namespace prototag
