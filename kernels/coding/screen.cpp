// Which prototypes can matter for an image: chosen before the path is followed, checked after it.

#include "coding/screen.hpp"

#include <algorithm>
#include <cstring>
#include <functional>
#include <limits>
#include <vector>

#include "coding/dot.hpp"

namespace prototag {
namespace {

constexpr std::int64_t kGroup = 8;

PROTOTAG_INLINE float group_max(const float* c) { return detail::largest(c, kGroup / 8); }

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
PROTOTAG_INLINE float reached_by(const std::vector<float>& maxima, std::int64_t width) {
  constexpr int kBins = 128;
  std::int32_t bin[kBins + 1] = {};
  float low = maxima[0], high = maxima[0];
  for (const float v : maxima) low = v < low ? v : low, high = v > high ? v : high;
  if (!(high > low)) return low;
  const float scale = kBins / (high - low);
  // Promises so close that the scale overflows tell nothing apart, and would index beyond the bins.
  if (!(scale > 0 && scale <= std::numeric_limits<float>::max())) return low;
  for (const float v : maxima) ++bin[static_cast<int>((v - low) * scale)];
  std::int64_t reached = 0;
  int b = kBins + 1;
  while (b > 0 && reached < width) reached += bin[--b];
  // One bin lower, so that rounding at the edge of a bin loses nothing.
  return b > 0 ? low + static_cast<float>(b - 1) / scale : low;
}

PROTOTAG_INLINE void screen_all(const float* promise, std::int64_t n, std::int64_t size,
                                std::int64_t offset, std::int64_t width, Key* keys,
                                std::int32_t* counts, std::int64_t room, float* floors) {
  const std::int64_t groups = size / kGroup;
  std::vector<float> maxima(groups);
  for (std::int64_t i = 0; i < n; ++i) {
    const float* c = promise + i * size;
    Key* key = keys + i * room;
    std::int64_t count = counts[i];
    float floor = count ? floors[i] : -std::numeric_limits<float>::infinity();
    for (std::int64_t g = 0; g < groups; ++g) maxima[g] = group_max(c + g * kGroup);
    if (count == 0 && groups >= width) {
      floor = reached_by(maxima, width);
    }
    for (std::int64_t g = 0; g <= groups; ++g) {
      if (g < groups && maxima[g] < floor) continue;
      const std::int64_t end = g < groups ? (g + 1) * kGroup : size;
      for (std::int64_t k = g * kGroup; k < end; ++k) {
        if (c[k] < floor) continue;
        if (count == room) {
          std::nth_element(key, key + (width - 1), key + count, std::greater<>());
          count = width;
          floor = promise_of(key[width - 1]);
          if (c[k] < floor) continue;
        }
        key[count++] = make_key(c[k], offset + k);
      }
    }
    counts[i] = static_cast<std::int32_t>(count);
    floors[i] = floor;
  }
}

PROTOTAG_INLINE void violators_all(const float* correlation, std::int64_t n, std::int64_t size,
                                   std::int64_t offset, const float* weights, const float* bounds,
                                   const Candidates& all, std::int32_t* added, float* largest) {
  const std::int64_t groups = size / kGroup;
  std::vector<float> scaled(weights ? size : 0);
  std::vector<char> known(size, 0);
  for (std::int64_t i = 0; i < n; ++i) {
    const float* c = correlation + i * size;
    if (weights) {
      for (std::int64_t k = 0; k < size; ++k) scaled[k] = c[k] / weights[offset + k];
      c = scaled.data();
    }
    std::int32_t* index = all.index + i * all.room;
    std::int32_t& count = all.count[i];
    const std::int32_t before = count;
    const auto mark = [&](char as) {
      for (std::int32_t j = 0; j < before; ++j) {
        if (index[j] >= offset && index[j] < offset + size) known[index[j] - offset] = as;
      }
    };
    mark(1);
    for (std::int64_t g = 0; g <= groups; ++g) {
      const std::int64_t begin = g * kGroup, end = g < groups ? begin + kGroup : size;
      if (g < groups) {
        const float best = group_max(c + begin);
        if (best > largest[i]) largest[i] = best;
        if (best <= bounds[i]) continue;
      }
      for (std::int64_t k = begin; k < end; ++k) {
        if (c[k] > largest[i]) largest[i] = c[k];
        if (c[k] <= bounds[i] || known[k]) continue;
        if (count < all.room) index[count++] = static_cast<std::int32_t>(offset + k);
        ++added[i];
      }
    }
    mark(0);
  }
}

#ifdef PROTOTAG_AVX2
__attribute__((target("avx2,fma"))) void screen_avx2(const float* promise, std::int64_t n,
                                                     std::int64_t size, std::int64_t offset,
                                                     std::int64_t width, Key* key,
                                                     std::int32_t* count, std::int64_t room,
                                                     float* floor) {
  screen_all(promise, n, size, offset, width, key, count, room, floor);
}
__attribute__((target("avx2,fma"))) void violators_avx2(const float* correlation, std::int64_t n,
                                                        std::int64_t size, std::int64_t offset,
                                                        const float* weights, const float* bounds,
                                                        const Candidates& all, std::int32_t* added,
                                                        float* largest) {
  violators_all(correlation, n, size, offset, weights, bounds, all, added, largest);
}
#endif

}  // namespace

void screen(const float* promise, std::int64_t n, std::int64_t size, std::int64_t offset,
            std::int64_t width, Key* key, std::int32_t* count, std::int64_t room, float* floor) {
#ifdef PROTOTAG_AVX2
  if (has_avx2()) return screen_avx2(promise, n, size, offset, width, key, count, room, floor);
#endif
  screen_all(promise, n, size, offset, width, key, count, room, floor);
}

void settle(Key* keys, const std::int32_t* key_count, std::int64_t key_room, std::int64_t n,
            std::int64_t width, const Candidates& candidates) {
  for (std::int64_t i = 0; i < n; ++i) {
    Key* key = keys + i * key_room;
    const std::int64_t count = key_count[i], kept = std::min(count, width);
    const std::int64_t core = std::min<std::int64_t>(candidates.core, kept);
    if (kept < count) std::nth_element(key, key + (kept - 1), key + count, std::greater<>());
    if (core < kept) std::nth_element(key, key + (core - 1), key + kept, std::greater<>());
    std::int32_t* index = candidates.index + i * candidates.room;
    for (std::int64_t j = 0; j < kept; ++j) index[j] = prototype_of(key[j]);
    candidates.count[i] = static_cast<std::int32_t>(kept);
  }
}

void violators(const float* correlation, std::int64_t n, std::int64_t size, std::int64_t offset,
               const float* weights, const float* bound, const Candidates& candidates,
               std::int32_t* added, float* largest) {
#ifdef PROTOTAG_AVX2
  if (has_avx2()) {
    return violators_avx2(correlation, n, size, offset, weights, bound, candidates, added, largest);
  }
#endif
  violators_all(correlation, n, size, offset, weights, bound, candidates, added, largest);
}

}  // namespace prototag
