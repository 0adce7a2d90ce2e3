// Nearest neighbours per tag, and sums over the tags of neighbours.
#pragma once

#include <cstdint>

namespace prototag {

// The tags of each training image, rows of a CSR matrix without values.
struct Tags {
  const std::int32_t* start;  // n + 1
  const std::int32_t* index;
};

// Neighbours of each query: up to `width` distinct images and their closeness.
struct Neighbours {
  std::int32_t* index;
  float* closeness;
  std::int32_t* count;
  std::int64_t width;
};

constexpr std::int64_t LANES = 8;  // queries processed at once

// For each of q queries (a multiple of LANES) the `most` closest images of each of t tags, their
// union in the order of tags, the closest first; of equally close ones the first. closeness is
// n x q; query i excludes image own[i] (-1: none). neighbours.width must be at least t * most,
// or n if that is less.
void nearest_per_tag(const float* closeness, std::int64_t n, std::int64_t q, const Tags& tags,
             std::int64_t t, std::int64_t most, const std::int32_t* own, const Neighbours& neighbours);

// scores[i, c] = sum of weight[i, j] over neighbours j < count[i] of query i that have tag c.
void vote(const std::int32_t* index, const float* weight, const std::int32_t* count,
          std::int64_t q, std::int64_t width, const Tags& tags, std::int64_t t, float* scores);

// out[i, j] = sum of value[i, c] over the tags c of neighbour j of query i: the transpose of vote.
void sum_over_tags(const std::int32_t* index, const std::int32_t* count, std::int64_t q,
            std::int64_t width, const Tags& tags, std::int64_t t, const float* value, float* out);

}  // namespace prototag
