// Ranking metrics of scores, and precision and recall at all thresholds.
//
// Scores are n x t in row order and finite; tags are n x t booleans.
#pragma once

#include <cstdint>

namespace prototag {

// Sorts all scores of a matrix in ascending order (stable), together with their tags.
template <typename Score>
void sort_scores(const Score* scores, const bool* tags, std::int64_t size, Score* ranked, bool* right);

// Ranking metrics of each tag, t numbers each.
template <typename Score>
struct TagRankings {
  double* precision;  // average precision; NaN where no image has the tag
  // AUC: the probability that an image with the tag scores above one without it; ties count half. 0.5 if
  // all images have the tag, or none.
  double* area;
  Score *best, *lower;  // score with the best F1 (highest of ties), and the next lower score
};
template <typename Score>
void rank_tags(const Score* scores, const bool* tags, std::int64_t n, std::int64_t t,
                  const TagRankings<Score>& ranked);

// Selects the `count` highest-scoring tags of each image, by index; ties take the first.
template <typename Score>
void top_tags(const Score* scores, std::int64_t n, std::int64_t t, std::int64_t count,
         std::int32_t* index);

// Lowers one threshold for all tags past the scores of a band low <= score < high.
//   present      t: how many images have each tag
//   hits, given  t: counts above the band, changed to those at its lower end
// Returns the number of distinct scores, at most `size`, the number of scores in the band. For each, in
// descending order: the score, mean precision and recall over tags, and counts over all tags.
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
