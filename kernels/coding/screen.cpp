#include "coding/screen.hpp"

#include <algorithm>
#include <cstring>
#include <functional>
#include <limits>

#include "coding/instructions.hpp"
#include "coding/marks.hpp"

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

// A value that at least `width` of the maxima reach, and not many more: read off a histogram.
float reached_by(const float* maxima, std::int64_t count, std::int64_t width) {
  constexpr int kBins = 256;
  std::int32_t bin[kBins + 1] = {};
  float low = maxima[0], high = maxima[0];
  for (std::int64_t i = 0; i < count; ++i) {
    low = maxima[i] < low ? maxima[i] : low, high = maxima[i] > high ? maxima[i] : high;
  }
  const float scale = kBins / (high - low);
  // Promises so close, or so far apart, that the scale is no number tell nothing apart.
  if (!(scale > 0 && scale <= std::numeric_limits<float>::max())) return low;
  for (std::int64_t i = 0; i < count; ++i) {
    const float at = (maxima[i] - low) * scale;
    ++bin[at > 0 ? (at < kBins ? static_cast<int>(at) : kBins) : 0];
  }
  std::int64_t reached = 0;
  int b = kBins + 1;
  while (b > 0 && reached < width) reached += bin[--b];
  // One bin lower, so that rounding at the edge of a bin loses nothing.
  return b > 0 ? low + static_cast<float>(b - 1) / scale : low;
}

// What is kept of one vector's promises, chunk by chunk.
struct Kept {
  std::vector<Key> key;
  float floor = kLeast;

  void cut(std::int64_t width) {
    std::nth_element(key.begin(), key.begin() + (width - 1), key.end(), std::greater<>());
    key.resize(static_cast<std::size_t>(width));
    floor = promise_of(key.back());
  }
};

template <typename Marks>
PROTOTAG_INLINE void screen_all(const Compact& z, const Short* const* vectors,
                                const std::int64_t* own, int n, std::int64_t width,
                                std::int64_t core, std::vector<std::int32_t>* chosen) {
  std::vector<Kept> kept(static_cast<std::size_t>(n));
  std::vector<float> promise(static_cast<std::size_t>(n * kChunk));
  std::vector<float> maxima(kChunk / kLanes);
  std::int32_t product[kTogether * kTile];
  const std::int64_t tiles = z.tiles(), together = kChunk / kTile;
  for (std::int64_t first = 0; first < tiles; first += together) {
    const std::int64_t last = std::min(tiles, first + together);
    for (std::int64_t tile = first; tile < last; ++tile) {
      const float* scale = z.scale + tile * kTile;
      for (int v = 0; v < n; v += kTogether) {
        const int some = std::min<int>(kTogether, n - v);
        multiply(z, tile, vectors + v, some, product);
        for (int i = 0; i < some; ++i) {
          float* to = promise.data() + (v + i) * kChunk + (tile - first) * kTile;
          const std::int32_t offset = vectors[v + i]->offset, *from = product + i * kTile;
          for (std::int64_t j = 0; j < kTile; ++j) {
            to[j] = static_cast<float>(from[j] - offset) * scale[j];
          }
        }
      }
    }
    const std::int64_t size = std::min(z.count - first * kTile, (last - first) * kTile);
    for (int v = 0; v < n; ++v) {
      float* c = promise.data() + v * kChunk;
      std::fill(c + size, c + (last - first) * kTile, kLeast);
      if (own && own[v] >= first * kTile && own[v] < first * kTile + size) {
        c[own[v] - first * kTile] = kLeast;
      }
      const std::int64_t groups = (last - first) * kTile / kLanes;
      if (first == 0 && groups >= width + 1) {
        for (std::int64_t g = 0; g < last - first; ++g) {  // each the largest of eight, a row apart
          const float* row = c + g * kTile;
          float* top = maxima.data() + g * kLanes;
          std::copy(row, row + kLanes, top);
          for (std::int64_t r = kLanes; r < kTile; r += kLanes) {
            for (std::int64_t l = 0; l < kLanes; ++l) {
              top[l] = row[r + l] > top[l] ? row[r + l] : top[l];
            }
          }
        }
        kept[v].floor = reached_by(maxima.data(), groups, width);
      }
      for (std::int64_t g = 0; g < last - first; ++g) {
        const Mask mask = Marks::reaching(c + g * kTile, kept[v].floor);
        const std::int64_t offset = (first + g) * kTile;
        each(mask, [&](std::int64_t j) {
          if (c[g * kTile + j] > kLeast) {
            kept[v].key.push_back(make_key(c[g * kTile + j], offset + j));
          }
        });
        if (static_cast<std::int64_t>(kept[v].key.size()) >= 4 * width) kept[v].cut(width);
      }
    }
  }
  for (int v = 0; v < n; ++v) {
    auto& key = kept[v].key;
    if (static_cast<std::int64_t>(key.size()) >= 2 * width) kept[v].cut(width);
    const auto best = static_cast<std::ptrdiff_t>(std::min<std::int64_t>(core, key.size()));
    if (best < static_cast<std::ptrdiff_t>(key.size())) {
      std::nth_element(key.begin(), key.begin() + best, key.end(), std::greater<>());
    }
    chosen[v].resize(key.size());
    for (std::size_t j = 0; j < key.size(); ++j) chosen[v][j] = prototype_of(key[j]);
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
                               std::int64_t core, std::vector<std::int32_t>* chosen) {
  screen_all<Avx2>(z, vectors, own, n, width, core, chosen);
}
PROTOTAG_AVX512 void screen_avx512(const Compact& z, const Short* const* vectors,
                                   const std::int64_t* own, int n, std::int64_t width,
                                   std::int64_t core, std::vector<std::int32_t>* chosen) {
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
            std::int64_t width, std::int64_t core, std::vector<std::int32_t>* chosen) {
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
  std::vector<std::int32_t> chosen[kGroup];
  for (std::int64_t first = 0; first < n; first += kGroup) {
    const int some = static_cast<int>(std::min<std::int64_t>(kGroup, n - first));
    for (int g = 0; g < some; ++g) {
      vectors[g].take(hints + (first + g) * z.width, z);
      each[g] = vectors + g;
    }
    screen(z, each, own ? own + first : nullptr, some, width, core, chosen);
    for (int g = 0; g < some; ++g) {
      std::copy(chosen[g].begin(), chosen[g].end(), candidate + (first + g) * room);
      count[first + g] = static_cast<std::int32_t>(chosen[g].size());
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

}  // namespace prototag
