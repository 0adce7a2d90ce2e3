// Nearest-neighbour search per tag, for eight queries at once: one SIMD comparison with the current worst
// neighbours of a tag rejects most candidates.

#include "knn/knn.hpp"

#include <algorithm>
#include <limits>
#include <vector>

#include "coding/dot_product.hpp"

namespace prototag {
namespace {

using detail::Lane;

// Inserts an image into the sorted list of the `most` closest images of a tag for a query.
PROTOTAG_INLINE void insert(float* value, std::int32_t* who, std::int64_t most, float closeness,
                            std::int32_t image) {
  std::int64_t place = most - 1;
  for (; place > 0 && value[place - 1] < closeness; --place) {
    value[place] = value[place - 1];
    who[place] = who[place - 1];
  }
  value[place] = closeness;
  who[place] = image;
}

PROTOTAG_INLINE void search(const float* closeness, std::int64_t n, std::int64_t q,
                            const Tags& tags, std::int64_t t, std::int64_t most,
                            const std::int32_t* own, float* bound, float* value,
                            std::int32_t* who) {
  const float lowest = -std::numeric_limits<float>::infinity();
  std::fill(bound, bound + t * LANES, lowest);
  std::fill(value, value + t * LANES * most, lowest);
  std::fill(who, who + t * LANES * most, -1);
  for (std::int64_t image = 0; image < n; ++image) {
    Lane near;
    detail::load(near, closeness + image * q);
    for (std::int32_t e = tags.start[image]; e < tags.start[image + 1]; ++e) {
      const std::int64_t tag = tags.index[e];
      Lane worst;
      detail::load(worst, bound + tag * LANES);
      const auto closer = near > worst;
      std::int64_t any[4];
      static_assert(sizeof closer == sizeof any);
      std::memcpy(any, &closer, sizeof any);
      if (!((any[0] | any[1]) | (any[2] | any[3]))) continue;
      for (std::int64_t lane = 0; lane < LANES; ++lane) {
        if (!closer[lane] || own[lane] == image) continue;
        const std::int64_t list = (tag * LANES + lane) * most;
        insert(value + list, who + list, most, near[lane], static_cast<std::int32_t>(image));
        bound[tag * LANES + lane] = value[list + most - 1];
      }
    }
  }
}

using Search = void (*)(const float*, std::int64_t, std::int64_t, const Tags&, std::int64_t,
                        std::int64_t, const std::int32_t*, float*, float*, std::int32_t*);

void search_plain(const float* closeness, std::int64_t n, std::int64_t q, const Tags& tags,
                  std::int64_t t, std::int64_t most, const std::int32_t* own, float* bound,
                  float* value, std::int32_t* who) {
  search(closeness, n, q, tags, t, most, own, bound, value, who);
}

#ifdef PROTOTAG_X86
PROTOTAG_AVX2 void search_avx2(const float* closeness, std::int64_t n,
                                                     std::int64_t q, const Tags& tags,
                                                     std::int64_t t, std::int64_t most,
                                                     const std::int32_t* own, float* bound,
                                                     float* value, std::int32_t* who) {
  search(closeness, n, q, tags, t, most, own, bound, value, who);
}
#endif

Search best_search() {
#ifdef PROTOTAG_X86
  if (instructions() != kPortable) return search_avx2;
#endif
  return search_plain;
}

}  // namespace

void nearest_per_tag(const float* closeness, std::int64_t n, std::int64_t q, const Tags& tags,
             std::int64_t t, std::int64_t most, const std::int32_t* own, const Neighbours& neighbours) {
  std::vector<float> bound(t * LANES), value(t * LANES * most);
  std::vector<std::int32_t> who(t * LANES * most);
  std::vector<std::int64_t> seen(n, -1);  // the last query that has the image as a neighbour
  const Search run = best_search();
  for (std::int64_t first = 0; first < q; first += LANES) {
    run(closeness + first, n, q, tags, t, most, own + first, bound.data(), value.data(),
        who.data());
    for (std::int64_t lane = 0; lane < LANES; ++lane) {
      const std::int64_t query = first + lane;
      std::int32_t* index = neighbours.index + query * neighbours.width;
      float* near = neighbours.closeness + query * neighbours.width;
      std::int32_t count = 0;
      for (std::int64_t tag = 0; tag < t; ++tag) {
        const std::int64_t list = (tag * LANES + lane) * most;
        for (std::int64_t place = list; place < list + most && who[place] >= 0; ++place) {
          const std::int32_t image = who[place];
          if (seen[image] == query) continue;
          seen[image] = query;
          index[count] = image;
          near[count++] = value[place];
        }
      }
      neighbours.count[query] = count;
    }
  }
}

void vote(const std::int32_t* index, const float* weight, const std::int32_t* count,
          std::int64_t q, std::int64_t width, const Tags& tags, std::int64_t t, float* scores) {
  std::fill(scores, scores + q * t, 0.0f);
  for (std::int64_t query = 0; query < q; ++query) {
    float* score = scores + query * t;
    for (std::int64_t j = 0; j < count[query]; ++j) {
      const std::int32_t image = index[query * width + j];
      const float w = weight[query * width + j];
      for (std::int32_t e = tags.start[image]; e < tags.start[image + 1]; ++e) {
        score[tags.index[e]] += w;
      }
    }
  }
}

void sum_over_tags(const std::int32_t* index, const std::int32_t* count, std::int64_t q,
            std::int64_t width, const Tags& tags, std::int64_t t, const float* value, float* out) {
  for (std::int64_t query = 0; query < q; ++query) {
    const float* own = value + query * t;
    for (std::int64_t j = 0; j < width; ++j) {
      float sum = 0;
      if (j < count[query]) {
        const std::int32_t image = index[query * width + j];
        for (std::int32_t e = tags.start[image]; e < tags.start[image + 1]; ++e) {
          sum += own[tags.index[e]];
        }
      }
      out[query * width + j] = sum;
    }
  }
}

}  // namespace prototag
