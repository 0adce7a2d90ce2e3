// Scores in order: how well they rank images, and what thresholds through them give.
//
// Scores are n x t by rows, finite; tags say of each whether its image has the tag.
#pragma once

#include <cstdint>

namespace prototag {

// All scores of a matrix, rising, and whether each stands for a tag that is there. Equal scores stay
// in the order that they came in.
template <typename Score>
void rank(const Score* scores, const bool* tags, std::int64_t size, Score* ranked, bool* right);

// Of each tag how its images rank, t numbers each.
template <typename Score>
struct Ranked {
  double* precision;  // average precision; NaN where no image has the tag
  // The chance that an image with the tag scores above one without it, ties counting half; 0.5 where
  // all images have it, or none.
  double* area;
  Score *best, *lower;  // the cut with the best F1, of equals the highest, and the next lower score
};
template <typename Score>
void rank_columns(const Score* scores, const bool* tags, std::int64_t n, std::int64_t t,
                  const Ranked<Score>& ranked);

// Of each image the `count` tags that score highest, in the order of tags; of equals the first.
template <typename Score>
void top(const Score* scores, std::int64_t n, std::int64_t t, std::int64_t count,
         std::int32_t* index);

// One threshold for all tags, lowered past the scores of a band low <= score < high.
//   present      t: how many images have each tag
//   hits, given  t: counts above the band, changed to those at its lower end
// At each distinct score, falling: the score, means over tags of precision and recall, and counts
// over all tags. Returns how many there are, at most `size`, the scores of the band.
template <typename Score>
struct Cuts {
  Score* score;
  double *precision, *recall;
  std::int64_t *hits, *given;
};
template <typename Score>
std::int64_t sweep_band(const Score* scores, const bool* tags, std::int64_t n, std::int64_t t,
                        Score low, Score high, const std::int64_t* present, std::int64_t* hits,
                        std::int64_t* given, std::int64_t size, const Cuts<Score>& cuts);

}  // namespace prototag
