// Active-set rounds of the encoder: screen candidates, follow the LARS path, certify its end, and add violators.

#include "coding/encoder.hpp"

#include <algorithm>
#include <limits>
#include <vector>

#include "coding/dot_product.hpp"
#include "coding/screening.hpp"
#include "coding/lars_path.hpp"

namespace prototag {
namespace {

constexpr std::int64_t kImagesPerBatch = 128;  // images per batch; large enough to keep the re-solve rounds full

constexpr std::size_t kKeptGramDoubles = 1 << 18;  // doubles of the Gram buffer that are kept between calls

// State of one image between rounds.
struct Image {
  std::vector<std::int32_t> candidate, violator, before;
  std::int64_t core = 0;  // leading candidates, which form the working set of the path
  bool tight = false;     // its path has reached the cap, or nearly
  float bound = 0, lambda_before = 0;
  Int8Vector int8;
};

// The rounds of a batch of images.
template <int kLanes>
struct Rounds {
  const Dictionary& z;
  const Int8Prototypes& int8;
  const Limits& limits;
  const Search& search;
  const float* targets;
  const float* weight;
  const Codes& codes;
  const Products& products;
  LarsPath<kLanes> path;
  std::vector<Image>& images;
  std::vector<float>& exact;
  std::vector<char>& known;

  std::int64_t width() const { return z.visual + z.labels; }

  PROTOTAG_INLINE void gather(std::int64_t first, Image* images, int n) {
    const Int8Vector* vectors[kGroup];
    Chosen chosen[kGroup];
    if (search.hints) {
      for (int g = 0; g < n; ++g) {
        images[g].int8.take(search.hints + (first + g) * width(), int8);
        vectors[g] = &images[g].int8;
      }
      screen(int8, vectors, search.excluded ? search.excluded + first : nullptr, n, search.width,
             search.core, chosen);
    }
    for (int g = 0; g < n; ++g) {
      if (search.hints) {
        images[g].candidate.swap(chosen[g].index);
        images[g].core = chosen[g].core;
      } else {
        const std::int32_t* index = search.index + (first + g) * search.room;
        images[g].candidate.assign(index, index + search.count[first + g]);
        images[g].core = std::min<std::int64_t>(search.core, search.count[first + g]);
      }
    }
  }

  PROTOTAG_INLINE void follow(std::int64_t i, Image& image) {
    const std::int64_t cap = limits.max_nonzeros;
    const float* target = targets + i * width();
    float* residual = codes.residual + i * width();
    path.candidate = image.candidate.data();
    path.total = static_cast<std::int64_t>(image.candidate.size());
    path.size = image.core;
    path.weight = z.labels ? weight[i] : 0.0;
    path.budget = limits.budgets ? limits.budgets[i] : limits.budget;
    double lambda = 0;
    // With certification, one pass over the other candidates suffices.
    codes.ending[i] = path.code(target, residual, lambda, search.certify, products);
    image.tight = path.tight();
    image.core = path.size;
    codes.lambda[i] = static_cast<float>(lambda);
    double sum = 0;
    for (std::size_t a = 0; a < path.active.size(); ++a) sum += path.coefficient[a];
    std::int32_t count = 0;
    std::int32_t* index = codes.index + i * cap;
    float* value = codes.value + i * cap;
    for (std::size_t a = 0; a < path.active.size(); ++a) {  // in the order of the prototypes
      const float part = static_cast<float>(path.coefficient[a] / path.omega(path.active[a]));
      if (!(path.coefficient[a] > kNegligible * sum) || !(part > 0)) continue;
      const std::int32_t prototype = path.candidate[path.active[a]];
      std::int32_t p = count++;
      for (; p > 0 && index[p - 1] > prototype; --p) index[p] = index[p - 1], value[p] = value[p - 1];
      index[p] = prototype, value[p] = part;
    }
    std::fill(index + count, index + cap, 0), std::fill(value + count, value + cap, 0.0f);
    codes.count[i] = count;
    double fit = 0;
    for (std::int64_t c = 0; c < z.visual; ++c) {
      fit += static_cast<double>(target[c] - residual[c]) * residual[c];
    }
    for (std::int64_t c = z.visual; c < width(); ++c) {
      const float weighted = static_cast<float>(path.weight * residual[c]);
      fit += static_cast<double>(target[c] - residual[c]) * weighted;
      residual[c] = weighted;
    }
    codes.fit[i] = fit;
  }

  // Prototypes with correlations above this bound are examined exactly. A tie with lambda may be a
  // duplicate of an active prototype with a lower index; at lambda zero there are no ties.
  float bound(std::int64_t i, const Image& image) const {
    const double lambda = codes.lambda[i];
    if (!(lambda > search.tie / 5)) return static_cast<float>(lambda + search.tie / 20);
    const double near = image.tight ? limits.near : 1 - search.tie;
    return static_cast<float>(near * lambda - search.tie / 10);
  }
  float tolerated(float lambda) const {
    return static_cast<float>(lambda * (1 + search.tie) + search.tie / 10);
  }

  // Computes the correlations of possible violators exactly; those above the bound join the working set.
  // Returns whether the working set has grown.
  PROTOTAG_INLINE bool admit(std::int64_t i, Image& image) {
    enum : char { kUnknown, kWaiting, kInCore, kForbidden, kWanted };
    const auto count = static_cast<std::int64_t>(image.violator.size());
    auto& candidate = image.candidate;
    exact.resize(image.violator.size());
    products.one(z.rows, width(), image.violator.data(), count, codes.residual + i * width(),
                 width(), exact.data());
    const auto core = static_cast<std::size_t>(image.core);
    for (std::size_t j = 0; j < candidate.size(); ++j) {
      known[candidate[j]] = j < core ? kInCore : kWaiting;
    }
    const std::int64_t excluded = search.excluded ? search.excluded[i] : -1;
    if (excluded >= 0) known[excluded] = kForbidden;
    float largest = image.bound;
    for (std::int64_t j = 0; j < count; ++j) {
      const std::int32_t k = image.violator[j];
      const float c = z.weights ? exact[j] / z.weights[k] : exact[j];
      if (known[k] == kForbidden) continue;
      if (c > largest) largest = c;
      if (!(c > image.bound) || known[k] == kInCore) continue;
      if (known[k] == kUnknown) candidate.push_back(k);
      known[k] = kWanted;
    }
    codes.largest[i] = largest;
    for (std::size_t j = core; j < candidate.size(); ++j) {
      if (known[candidate[j]] == kWanted) std::swap(candidate[image.core++], candidate[j]);
    }
    for (const std::int32_t k : candidate) known[k] = kUnknown;
    if (excluded >= 0) known[excluded] = kUnknown;
    return image.core > static_cast<std::int64_t>(core);
  }

  // If the added candidates have not changed the path, the certificate of the previous round still holds,
  // because the end of a path depends on the active prototypes only.
  PROTOTAG_INLINE bool same_as_before(std::int64_t i, const Image& image) const {
    const std::int32_t* index = codes.index + i * limits.max_nonzeros;
    return codes.lambda[i] == image.lambda_before &&
           codes.count[i] == static_cast<std::int32_t>(image.before.size()) &&
           std::equal(image.before.begin(), image.before.end(), index) &&
           codes.largest[i] <= tolerated(codes.lambda[i]);
  }

  // Certifies the ends of some images; those whose paths have changed stay open.
  PROTOTAG_INLINE void certify(std::int64_t first, const int* open, int n, std::vector<int>& still) {
    const Int8Vector* vectors[kGroup];
    float bounds[kGroup];
    std::vector<std::int32_t> found[kGroup];
    for (int o = 0; o < n; ++o) {
      Image& image = images[open[o]];
      const std::int64_t i = first + open[o];
      image.int8.take(codes.residual + i * width(), int8);
      vectors[o] = &image.int8;
      bounds[o] = image.bound = bound(i, image);
    }
    possible_violators(int8, vectors, bounds, n, found);
    for (int o = 0; o < n; ++o) {
      Image& image = images[open[o]];
      const std::int64_t i = first + open[o];
      image.violator.swap(found[o]);
      if (!admit(i, image)) continue;
      const std::int32_t* index = codes.index + i * limits.max_nonzeros;
      image.before.assign(index, index + codes.count[i]);
      image.lambda_before = codes.lambda[i];
      follow(i, image);
      if (!same_as_before(i, image)) still.push_back(open[o]);
    }
  }

  PROTOTAG_INLINE void run(std::int64_t first, int n) {
    for (int g = 0; g < n; g += kGroup) {
      const int some = std::min<int>(kGroup, n - g);
      gather(first + g, images.data() + g, some);
      for (int j = g; j < g + some; ++j) follow(first + j, images[j]);
    }
    if (!search.certify) {
      std::fill(codes.largest + first, codes.largest + first + n,
                -std::numeric_limits<float>::infinity());
      return;
    }
    std::vector<int> open(n), still;
    for (int g = 0; g < n; ++g) open[g] = g;
    while (!open.empty()) {
      still.clear();
      const int left = static_cast<int>(open.size());
      for (int g = 0; g < left; g += kGroup) {
        certify(first, open.data() + g, std::min<int>(kGroup, left - g), still);
      }
      open.swap(still);
    }
  }
};

template <int kLanes>
PROTOTAG_INLINE void encode_all(const Dictionary& z, const Int8Prototypes& int8, const Limits& limits,
                                const Search& search, const float* targets, const float* weight,
                                std::int64_t n, const Codes& codes, const Products& products) {
  // Reused between calls: allocation takes longer than encoding one image.
  thread_local std::vector<Image> images;
  thread_local std::vector<float> exact;
  thread_local std::vector<char> known;
  thread_local std::vector<double> gram;
  if (static_cast<std::int64_t>(images.size()) < std::min(n, kImagesPerBatch)) images.resize(std::min(n, kImagesPerBatch));
  known.assign(z.count, 0);
  Rounds<kLanes> rounds{z,     int8,  limits, search, targets, weight,
                        codes, products, LarsPath<kLanes>(z, limits, gram), images, exact, known};
  for (std::int64_t first = 0; first < n; first += kImagesPerBatch) {
    rounds.run(first, static_cast<int>(std::min(kImagesPerBatch, n - first)));
  }
  if (gram.size() > kKeptGramDoubles) gram = {};
}

#ifdef PROTOTAG_X86
PROTOTAG_AVX2 void one_avx2(const float* rows, std::int64_t stride, const std::int32_t* index,
                            std::int64_t count, const float* v, std::int64_t width, float* out) {
  detail::dot_rows(rows, stride, index, count, v, width, out);
}
PROTOTAG_AVX2 void four_avx2(const float* rows, std::int64_t stride, const std::int32_t* index,
                             std::int64_t count, const float* const* v, std::int64_t width,
                             float* const* out) {
  detail::dot_rows_by_four(rows, stride, index, count, v, width, out);
}
PROTOTAG_AVX2 void encode_avx2(const Dictionary& z, const Int8Prototypes& int8, const Limits& limits,
                               const Search& search, const float* targets, const float* weight,
                               std::int64_t n, const Codes& codes) {
  encode_all<4>(z, int8, limits, search, targets, weight, n, codes, {one_avx2, four_avx2});
}
// The products use eight lanes here too, so their bits are the same.
PROTOTAG_AVX512 void encode_avx512(const Dictionary& z, const Int8Prototypes& int8,
                                   const Limits& limits, const Search& search,
                                   const float* targets, const float* weight, std::int64_t n,
                                   const Codes& codes) {
  encode_all<8>(z, int8, limits, search, targets, weight, n, codes, {one_avx2, four_avx2});
}
#endif

void one_plain(const float* rows, std::int64_t stride, const std::int32_t* index,
               std::int64_t count, const float* v, std::int64_t width, float* out) {
  detail::dot_rows(rows, stride, index, count, v, width, out);
}
void four_plain(const float* rows, std::int64_t stride, const std::int32_t* index,
                std::int64_t count, const float* const* v, std::int64_t width, float* const* out) {
  detail::dot_rows_by_four(rows, stride, index, count, v, width, out);
}

}  // namespace

void encode(const Dictionary& z, const Int8Prototypes& int8, const Limits& limits,
            const Search& search, const float* targets, const float* weight, std::int64_t n,
            const Codes& codes) {
#ifdef PROTOTAG_X86
  if (instructions() == kAvx512) {
    return encode_avx512(z, int8, limits, search, targets, weight, n, codes);
  }
  if (instructions() == kAvx2) {
    return encode_avx2(z, int8, limits, search, targets, weight, n, codes);
  }
#endif
  encode_all<2>(z, int8, limits, search, targets, weight, n, codes, {one_plain, four_plain});
}

}  // namespace prototag
