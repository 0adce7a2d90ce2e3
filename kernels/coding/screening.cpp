#include "coding/screening.hpp"

#include <algorithm>
#include <cstring>
#include <functional>
#include <limits>

#include "coding/cpu_dispatch.hpp"
#include "coding/simd_mask.hpp"

namespace prototag {
namespace {

// A prototype and its promise in one integer that sorts by promise: largest first is best first.
using Key = std::uint64_t;

constexpr std::int64_t kChunk = 4096;  // prototypes whose promises are held: they stay in the cache
constexpr std::int64_t kLanes = 8;
constexpr float kLeast = -std::numeric_limits<float>::infinity();

// The bits of a float, changed so that they sort as the float does; then the prototype, so that of
// equal promises the first prototype comes first.
PROTOTAG_INLINE Key make_key(float promise, std::int64_t prototype) {
  std::uint32_t bits;
  std::memcpy(&bits, &promise, sizeof bits);
  bits = bits & 0x80000000u ? ~bits : bits | 0x80000000u;
  return static_cast<Key>(bits) << 32 | (0xffffffffu - static_cast<std::uint32_t>(prototype));
}
PROTOTAG_INLINE std::int32_t prototype_of(Key key) {
  return static_cast<std::int32_t>(0xffffffffu - static_cast<std::uint32_t>(key));
}
PROTOTAG_INLINE float promise_of(Key key) {
  std::uint32_t bits = static_cast<std::uint32_t>(key >> 32);
  bits = bits & 0x80000000u ? bits & 0x7fffffffu : ~bits;
  float promise;
  std::memcpy(&promise, &bits, sizeof promise);
  return promise;
}

// The largest numbers of groups of promises, and values that a given number of them reach.
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
    if (!(low_ > kLeast)) low_ = most > 0 ? 0 : kLeast;  // what is forbidden or not there is no measure
    scale_ = kBins / (most - low_);
    // Promises so close, or so far apart, that the scale is no number tell nothing apart.
    if (!(scale_ > 0 && scale_ <= std::numeric_limits<float>::max())) scale_ = 0;
    for (std::int64_t i = 0; i < count_; ++i) {
      const float at = (maxima_[i] - low_) * scale_;
      ++bin_[at > 0 ? (at < kBins ? static_cast<int>(at) : kBins) : 0];
    }
  }

  // A value that at least `number` of the maxima reach, if there are as many above the lowest, and
  // not many more.
  PROTOTAG_INLINE float reached_by(std::int64_t number) const {
    std::int64_t reached = 0;
    int b = kBins + 1;
    while (b > 0 && reached < number) reached += bin_[--b];
    // One bin lower, so that rounding at the edge of a bin loses nothing.
    return b > 1 && scale_ > 0 ? low_ + static_cast<float>(b - 1) / scale_ : kLeast;
  }

 private:
  static constexpr int kBins = 256;
  const float* maxima_;
  std::int64_t count_;
  float low_, scale_;
  std::int32_t bin_[kBins + 1] = {};
};

// What is kept of one vector's promises, chunk by chunk.
struct Kept {
  std::vector<Key> key;
  float floor = kLeast, core_floor = kLeast;

  void cut(std::int64_t width) {
    std::nth_element(key.begin(), key.begin() + (width - 1), key.end(), std::greater<>());
    key.resize(static_cast<std::size_t>(width));
    floor = std::max(floor, promise_of(key.back()));
  }

  // The best first, about `core` of them.
  std::int64_t best_first(std::int64_t core) {
    const auto all = static_cast<std::int64_t>(key.size());
    const auto best = std::partition(key.begin(), key.end(),
                                     [&](Key k) { return promise_of(k) >= core_floor; });
    const std::int64_t found = best - key.begin();
    if (all <= core || (found >= core && found <= core + core / 4)) return std::min(found, all);
    std::nth_element(key.begin(), key.begin() + core, key.end(), std::greater<>());
    return core;
  }
};

template <typename Marks>
PROTOTAG_INLINE void screen_all(const Compact& z, const Short* const* vectors,
                                const std::int64_t* own, int n, std::int64_t width,
                                std::int64_t core, Chosen* chosen) {
  thread_local std::vector<float> promise, maxima(kChunk);
  if (promise.size() < static_cast<std::size_t>(n * kChunk)) promise.resize(n * kChunk);
  Kept kept[kGroup];
  std::int32_t product[kTogether * kTile];
  // Every chunk takes tiles from all over, so that the first one tells what to expect of the others.
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
          float* to = promise.data() + (v + i) * kChunk + t * kTile;
          const std::int32_t offset = vectors[v + i]->offset, *from = product + i * kTile;
          for (std::int64_t j = 0; j < kTile; ++j) {
            to[j] = static_cast<float>(from[j] - offset) * scale[j];
          }
        }
      }
    }
    const std::int64_t size = here * kTile;
    for (int v = 0; v < n; ++v) {
      float* c = promise.data() + v * kChunk;
      if ((tiles - 1) % chunks == chunk) {
        std::fill(c + size - (tiles * kTile - z.count), c + size, kLeast);
      }
      if (own && own[v] >= 0 && own[v] / kTile % chunks == chunk) {
        c[own[v] / kTile / chunks * kTile + own[v] % kTile] = kLeast;
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
          kept[v].floor = histogram.reached_by(wanted);
          kept[v].core_floor = histogram.reached_by(
              static_cast<std::int64_t>(static_cast<double>(core) * share) + 1);
        }
      }
      auto& key = kept[v].key;
      for (std::int64_t t = 0; t < here; ++t) {
        const float* row = c + t * kTile;
        const std::int64_t offset = (chunk + t * chunks) * kTile;
        each(Marks::reaching(row, kept[v].floor), [&](std::int64_t j) {
          if (row[j] > kLeast) key.push_back(make_key(row[j], offset + j));
        });
        if (static_cast<std::int64_t>(key.size()) >= 4 * width) kept[v].cut(width);
      }
    }
  }
  for (int v = 0; v < n; ++v) {
    auto& key = kept[v].key;
    if (static_cast<std::int64_t>(key.size()) >= 2 * width) kept[v].cut(width);
    chosen[v].core = kept[v].best_first(core);
    chosen[v].index.resize(key.size());
    for (std::size_t j = 0; j < key.size(); ++j) chosen[v].index[j] = prototype_of(key[j]);
  }
}

template <typename Marks>
PROTOTAG_INLINE void suspects_all(const Compact& z, const Short* const* vectors,
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
        const Short& x = *vectors[v + i];
        const std::int32_t* from = product + i * kTile;
        for (std::int64_t j = 0; j < kTile; ++j) {
          most[j] = static_cast<float>(from[j] - x.offset) * scale[j] + error[j] * x.norm +
                    length[j] * x.error;
        }
        each(Marks::beyond(most, bound[v + i] / x.scale) & there, [&](std::int64_t j) {
          found[v + i].push_back(static_cast<std::int32_t>(tile * kTile + j));
        });
      }
    }
  }
}

#ifdef PROTOTAG_X86
PROTOTAG_AVX2 void screen_avx2(const Compact& z, const Short* const* vectors,
                               const std::int64_t* own, int n, std::int64_t width,
                               std::int64_t core, Chosen* chosen) {
  screen_all<Avx2>(z, vectors, own, n, width, core, chosen);
}
PROTOTAG_AVX512 void screen_avx512(const Compact& z, const Short* const* vectors,
                                   const std::int64_t* own, int n, std::int64_t width,
                                   std::int64_t core, Chosen* chosen) {
  screen_all<Avx512>(z, vectors, own, n, width, core, chosen);
}
PROTOTAG_AVX2 void suspects_avx2(const Compact& z, const Short* const* vectors, const float* bound,
                                 int n, std::vector<std::int32_t>* found) {
  suspects_all<Avx2>(z, vectors, bound, n, found);
}
PROTOTAG_AVX512 void suspects_avx512(const Compact& z, const Short* const* vectors,
                                     const float* bound, int n, std::vector<std::int32_t>* found) {
  suspects_all<Avx512>(z, vectors, bound, n, found);
}
#endif

}  // namespace

void screen(const Compact& z, const Short* const* vectors, const std::int64_t* own, int n,
            std::int64_t width, std::int64_t core, Chosen* chosen) {
#ifdef PROTOTAG_X86
  if (instructions() == kAvx512) return screen_avx512(z, vectors, own, n, width, core, chosen);
  if (instructions() == kAvx2) return screen_avx2(z, vectors, own, n, width, core, chosen);
#endif
  screen_all<Portable>(z, vectors, own, n, width, core, chosen);
}

void screen_rows(const Compact& z, const float* hints, const std::int64_t* own, std::int64_t n,
                 std::int64_t width, std::int64_t core, std::int32_t* candidate,
                 std::int32_t* count, std::int64_t room) {
  Short vectors[kGroup];
  const Short* each[kGroup];
  Chosen chosen[kGroup];
  for (std::int64_t first = 0; first < n; first += kGroup) {
    const int some = static_cast<int>(std::min<std::int64_t>(kGroup, n - first));
    for (int g = 0; g < some; ++g) {
      vectors[g].take(hints + (first + g) * z.width, z);
      each[g] = vectors + g;
    }
    screen(z, each, own ? own + first : nullptr, some, width, core, chosen);
    for (int g = 0; g < some; ++g) {
      const auto& index = chosen[g].index;
      std::copy(index.begin(), index.end(), candidate + (first + g) * room);
      count[first + g] = static_cast<std::int32_t>(index.size());
    }
  }
}

void suspects(const Compact& z, const Short* const* vectors, const float* bound, int n,
              std::vector<std::int32_t>* found) {
#ifdef PROTOTAG_X86
  if (instructions() == kAvx512) return suspects_avx512(z, vectors, bound, n, found);
  if (instructions() == kAvx2) return suspects_avx2(z, vectors, bound, n, found);
#endif
  suspects_all<Portable>(z, vectors, bound, n, found);
}

void suspect_rows(const Compact& z, const float* vectors, const float* bound, std::int64_t n,
                  std::uint8_t* suspected) {
  std::fill(suspected, suspected + n * z.count, std::uint8_t{0});
  Short vector;
  const Short* one = &vector;
  std::vector<std::int32_t> found;
  for (std::int64_t i = 0; i < n; ++i) {
    vector.take(vectors + i * z.width, z);
    suspects(z, &one, bound + i, 1, &found);
    for (const std::int32_t k : found) suspected[i * z.count + k] = 1;
  }
}

}  // namespace prototag
