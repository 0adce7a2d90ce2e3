#pragma once

#include <cstdint>

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
  std::int64_t max_nonzeros;  // cap on the non-zeros of a code
  // A path that the cap cuts could have run otherwise though its end is optimal: prototypes whose
  // correlation exceeds `near` lambda at its end are tried too.
  double near;
};

// What ended the path of an image.
enum Ending : std::int8_t { kBudget = 0, kOptimum = 1, kCap = 2, kStalled = 3 };

// The prototypes that may take part in the code of each image: n rows of `room`, `count` in use.
// The path is followed over the first `core`; others join it when they turn out to matter.
struct Candidates {
  std::int32_t* index;
  std::int32_t* count;
  std::int64_t room, core;
};

struct Codes {               // one row per image
  std::int32_t* index;       // n x max_nonzeros
  float* value;              // n x max_nonzeros
  std::int32_t* count;       // n
  float* lambda;             // correlation of the active prototypes with the residual (over omega)
  std::int8_t* ending;       // n
  float* residual;           // n x (visual + labels): [x - a D | weight (target - a S)]
  double* fit;               // n: (a Z) . residual, so that a . correlation need not be summed again
};

// Follow the path of the non-negative lasso for each image over its own candidates.
//   targets     n x (visual + labels): [x_i | working target_i]
//   weight      n: lam / p_i, the weight of the label part; ignored when labels is 0
void lars(const Dictionary& dictionary, const Limits& limits, const float* targets,
          const float* weight, std::int64_t n, const Candidates& candidates, const Codes& codes);

}  // namespace prototag
