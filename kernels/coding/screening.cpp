#include "coding/screening.hpp"

#include <algorithm>
#include <cstring>
#include <functional>
#include <limits>

#include "coding/cpu_dispatch.hpp"
#include "coding/simd_mask.hpp"

namespace prototag {
namespace {

// A prototype and its estimated product in one integer that sorts by the estimate.
using Key = std::uint64_t;

constexpr std::int64_t kChunk = 4096;  // prototypes whose estimates fit into the cache
constexpr std::int64_t kLanes = 8;
constexpr float kLeast = -std::numeric_limits<float>::infinity();

// The order-preserving bits of the estimate, then the inverted index, so that ties take the lowest index.
PROTOTAG_INLINE Key make_key(float estimate, std::int64_t prototype) {
  std::uint32_t bits;
  std::memcpy(&bits, &estimate, sizeof bits);
  bits = bits & 0x80000000u ? ~bits : bits | 0x80000000u;
  return static_cast<Key>(bits) << 32 | (0xffffffffu - static_cast<std::uint32_t>(prototype));
}
PROTOTAG_INLINE std::int32_t prototype_of(Key key) {
  return static_cast<std::int32_t>(0xffffffffu - static_cast<std::uint32_t>(key));
}
PROTOTAG_INLINE float estimate_of(Key key) {
  std::uint32_t bits = static_cast<std::uint32_t>(key >> 32);
  bits = bits & 0x80000000u ? bits & 0x7fffffffu : ~bits;
  float estimate;
  std::memcpy(&estimate, &bits, sizeof estimate);
  return estimate;
}

// Histogram of the maxima of groups of estimates, for a threshold that a given number of them reach.
class Histogram {
 public:
  PROTOTAG_INLINE Histogram(const float* c, std::int64_t size, std::int64_t rows, float* maxima)
      : maxima_(maxima), count_(size / rows) {
    float low[kLanes], high[kLanes];
    for (std::int64_t l = 0; l < kLanes; ++l) low[l] = -kLeast, high[l] = kLeast;
    for (std::int64_t g = 0; g < size / (rows * kLanes); ++g) {
      const float* from = c + g * rows * kLanes;
      float* top = maxima + g * kLanes;
      for (std::int64_t l = 0; l < kLanes; ++l) top[l] = from[l];
      for (std::int64_t r = 1; r < rows; ++r) {
        for (std::int64_t l = 0; l < kLanes; ++l) {
          top[l] = from[r * kLanes + l] > top[l] ? from[r * kLanes + l] : top[l];
        }
      }
      for (std::int64_t l = 0; l < kLanes; ++l) {
        low[l] = top[l] < low[l] ? top[l] : low[l], high[l] = top[l] > high[l] ? top[l] : high[l];
      }
    }
    low_ = low[0];
    float most = high[0];
    for (std::int64_t l = 1; l < kLanes; ++l) {
      low_ = low[l] < low_ ? low[l] : low_, most = high[l] > most ? high[l] : most;
    }
    if (!(low_ > kLeast)) low_ = most > 0 ? 0 : kLeast;  // excluded or padded entries do not define the range
    scale_ = kBins / (most - low_);
    // Upper bounds without a finite scale cannot be binned.
    if (!(scale_ > 0 && scale_ <= std::numeric_limits<float>::max())) scale_ = 0;
    for (std::int64_t i = 0; i < count_; ++i) {
      const float at = (maxima_[i] - low_) * scale_;
      ++bin_[at > 0 ? (at < kBins ? static_cast<int>(at) : kBins) : 0];
    }
  }

  // Returns a threshold that at least `number` of the maxima reach, if so many exceed the lowest, and few
  // more.
  PROTOTAG_INLINE float reached_by(std::int64_t number) const {
    std::int64_t reached = 0;
    int b = kBins + 1;
    while (b > 0 && reached < number) reached += bin_[--b];
    // One bin lower, in case of rounding at the edge of a bin.
    return b > 1 && scale_ > 0 ? low_ + static_cast<float>(b - 1) / scale_ : kLeast;
  }

 private:
  static constexpr int kBins = 256;
  const float* maxima_;
  std::int64_t count_;
  float low_, scale_;
  std::int32_t bin_[kBins + 1] = {};
};

// The largest estimates of one vector, collected chunk by chunk.
struct TopEstimates {
  std::vector<Key> key;
  float floor = kLeast, core_floor = kLeast;

  void cut(std::int64_t width) {
    std::nth_element(key.begin(), key.begin() + (width - 1), key.end(), std::greater<>());
    key.resize(static_cast<std::size_t>(width));
    floor = std::max(floor, estimate_of(key.back()));
  }

  // Moves about `core` best ones to the front, and returns their number.
  std::int64_t best_first(std::int64_t core) {
    const auto all = static_cast<std::int64_t>(key.size());
    const auto best = std::partition(key.begin(), key.end(),
                                     [&](Key k) { return estimate_of(k) >= core_floor; });
    const std::int64_t found = best - key.begin();
    if (all <= core || (found >= core && found <= core + core / 4)) return std::min(found, all);
    std::nth_element(key.begin(), key.begin() + core, key.end(), std::greater<>());
    return core;
  }
};

template <typename Compare>
PROTOTAG_INLINE void screen_all(const Int8Prototypes& z, const Int8Vector* const* vectors,
                                const std::int64_t* excluded, int n, std::int64_t width,
                                std::int64_t core, Chosen* chosen) {
  thread_local std::vector<float> estimate, maxima(kChunk);
  if (estimate.size() < static_cast<std::size_t>(n * kChunk)) estimate.resize(n * kChunk);
  TopEstimates top_estimates[kGroup];
  std::int32_t product[kTogether * kTile];
  // Each chunk takes tiles from the whole range, so thresholds of the first chunk fit the others.
  const std::int64_t tiles = z.tiles(), chunks = (tiles * kTile + kChunk - 1) / kChunk;
  for (std::int64_t chunk = 0; chunk < chunks; ++chunk) {
    const std::int64_t here = (tiles - chunk + chunks - 1) / chunks;
    for (std::int64_t t = 0; t < here; ++t) {
      const std::int64_t tile = chunk + t * chunks;
      const float* scale = z.scale + tile * kTile;
      for (int v = 0; v < n; v += kTogether) {
        const int some = std::min<int>(kTogether, n - v);
        multiply(z, tile, vectors + v, some, product);
        for (int i = 0; i < some; ++i) {
          float* to = estimate.data() + (v + i) * kChunk + t * kTile;
          const std::int32_t offset = vectors[v + i]->offset, *from = product + i * kTile;
          for (std::int64_t j = 0; j < kTile; ++j) {
            to[j] = static_cast<float>(from[j] - offset) * scale[j];
          }
        }
      }
    }
    const std::int64_t size = here * kTile;
    for (int v = 0; v < n; ++v) {
      float* c = estimate.data() + v * kChunk;
      if ((tiles - 1) % chunks == chunk) {
        std::fill(c + size - (tiles * kTile - z.count), c + size, kLeast);
      }
      if (excluded && excluded[v] >= 0 && excluded[v] / kTile % chunks == chunk) {
        c[excluded[v] / kTile / chunks * kTile + excluded[v] % kTile] = kLeast;
      }
      if (chunk == 0) {
        const std::int64_t all = (size + 2 * kTile - 1) / (2 * kTile) * 2 * kTile;
        if (all <= kChunk) std::fill(c + size, c + all, kLeast);
        const double share = static_cast<double>(size) / static_cast<double>(tiles * kTile);
        const auto wanted = static_cast<std::int64_t>(static_cast<double>(width) * share) + 1;
        std::int64_t rows = 16;
        while (rows > 1 && all < 3 * rows * wanted / 2) rows /= 2;
        if (all > 2 * wanted) {
          const Histogram histogram(c, all, rows, maxima.data());
          top_estimates[v].floor = histogram.reached_by(wanted);
          top_estimates[v].core_floor = histogram.reached_by(
              static_cast<std::int64_t>(static_cast<double>(core) * share) + 1);
        }
      }
      auto& key = top_estimates[v].key;
      for (std::int64_t t = 0; t < here; ++t) {
        const float* row = c + t * kTile;
        const std::int64_t offset = (chunk + t * chunks) * kTile;
        each(Compare::at_least(row, top_estimates[v].floor), [&](std::int64_t j) {
          if (row[j] > kLeast) key.push_back(make_key(row[j], offset + j));
        });
        if (static_cast<std::int64_t>(key.size()) >= 4 * width) top_estimates[v].cut(width);
      }
    }
  }
  for (int v = 0; v < n; ++v) {
    auto& key = top_estimates[v].key;
    if (static_cast<std::int64_t>(key.size()) >= 2 * width) top_estimates[v].cut(width);
    chosen[v].core = top_estimates[v].best_first(core);
    chosen[v].index.resize(key.size());
    for (std::size_t j = 0; j < key.size(); ++j) chosen[v].index[j] = prototype_of(key[j]);
  }
}

template <typename Compare>
PROTOTAG_INLINE void possible_violators_all(const Int8Prototypes& z, const Int8Vector* const* vectors,
                                  const float* bound, int n, std::vector<std::int32_t>* found) {
  std::int32_t product[kTogether * kTile];
  float most[kTile];
  for (int v = 0; v < n; ++v) found[v].clear();
  for (std::int64_t tile = 0; tile < z.tiles(); ++tile) {
    const float *scale = z.scale + tile * kTile, *error = z.error + tile * kTile;
    const float* length = z.length + tile * kTile;
    const std::int64_t left = z.count - tile * kTile;
    const Mask there = left < 64 ? (Mask{1} << left) - 1 : ~Mask{0};
    for (int v = 0; v < n; v += kTogether) {
      const int some = std::min<int>(kTogether, n - v);
      multiply(z, tile, vectors + v, some, product);
      for (int i = 0; i < some; ++i) {
        const Int8Vector& x = *vectors[v + i];
        const std::int32_t* from = product + i * kTile;
        for (std::int64_t j = 0; j < kTile; ++j) {
          most[j] = static_cast<float>(from[j] - x.offset) * scale[j] + error[j] * x.norm +
                    length[j] * x.error;
        }
        each(Compare::not_at_most(most, bound[v + i] / x.scale) & there, [&](std::int64_t j) {
          found[v + i].push_back(static_cast<std::int32_t>(tile * kTile + j));
        });
      }
    }
  }
}

#ifdef PROTOTAG_X86
PROTOTAG_AVX2 void screen_avx2(const Int8Prototypes& z, const Int8Vector* const* vectors,
                               const std::int64_t* excluded, int n, std::int64_t width,
                               std::int64_t core, Chosen* chosen) {
  screen_all<Avx2>(z, vectors, excluded, n, width, core, chosen);
}
PROTOTAG_AVX512 void screen_avx512(const Int8Prototypes& z, const Int8Vector* const* vectors,
                                   const std::int64_t* excluded, int n, std::int64_t width,
                                   std::int64_t core, Chosen* chosen) {
  screen_all<Avx512>(z, vectors, excluded, n, width, core, chosen);
}
PROTOTAG_AVX2 void possible_violators_avx2(const Int8Prototypes& z, const Int8Vector* const* vectors, const float* bound,
                                 int n, std::vector<std::int32_t>* found) {
  possible_violators_all<Avx2>(z, vectors, bound, n, found);
}
PROTOTAG_AVX512 void possible_violators_avx512(const Int8Prototypes& z, const Int8Vector* const* vectors,
                                     const float* bound, int n, std::vector<std::int32_t>* found) {
  possible_violators_all<Avx512>(z, vectors, bound, n, found);
}
#endif

}  // namespace

void screen(const Int8Prototypes& z, const Int8Vector* const* vectors, const std::int64_t* excluded, int n,
            std::int64_t width, std::int64_t core, Chosen* chosen) {
#ifdef PROTOTAG_X86
  if (instructions() == kAvx512) return screen_avx512(z, vectors, excluded, n, width, core, chosen);
  if (instructions() == kAvx2) return screen_avx2(z, vectors, excluded, n, width, core, chosen);
#endif
  screen_all<Portable>(z, vectors, excluded, n, width, core, chosen);
}

void screen_rows(const Int8Prototypes& z, const float* hints, const std::int64_t* excluded, std::int64_t n,
                 std::int64_t width, std::int64_t core, std::int32_t* candidate,
                 std::int32_t* count, std::int64_t room) {
  Int8Vector vectors[kGroup];
  const Int8Vector* each[kGroup];
  Chosen chosen[kGroup];
  for (std::int64_t first = 0; first < n; first += kGroup) {
    const int some = static_cast<int>(std::min<std::int64_t>(kGroup, n - first));
    for (int g = 0; g < some; ++g) {
      vectors[g].take(hints + (first + g) * z.width, z);
      each[g] = vectors + g;
    }
    screen(z, each, excluded ? excluded + first : nullptr, some, width, core, chosen);
    for (int g = 0; g < some; ++g) {
      const auto& index = chosen[g].index;
      std::copy(index.begin(), index.end(), candidate + (first + g) * room);
      count[first + g] = static_cast<std::int32_t>(index.size());
    }
  }
}

void possible_violators(const Int8Prototypes& z, const Int8Vector* const* vectors, const float* bound, int n,
              std::vector<std::int32_t>* found) {
#ifdef PROTOTAG_X86
  if (instructions() == kAvx512) return possible_violators_avx512(z, vectors, bound, n, found);
  if (instructions() == kAvx2) return possible_violators_avx2(z, vectors, bound, n, found);
#endif
  possible_violators_all<Portable>(z, vectors, bound, n, found);
}

void possible_violator_rows(const Int8Prototypes& z, const float* vectors, const float* bound, std::int64_t n,
                  std::uint8_t* may_violate) {
  std::fill(may_violate, may_violate + n * z.count, std::uint8_t{0});
  Int8Vector vector;
  const Int8Vector* one = &vector;
  std::vector<std::int32_t> found;
  for (std::int64_t i = 0; i < n; ++i) {
    vector.take(vectors + i * z.width, z);
    possible_violators(z, &one, bound + i, 1, &found);
    for (const std::int32_t k : found) may_violate[i * z.count + k] = 1;
  }
}

}  // namespace prototag
