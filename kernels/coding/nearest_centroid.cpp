#include "coding/nearest_centroid.hpp"

#include <algorithm>
#include <vector>

#include "coding/dot_product.hpp"
#include "coding/simd_mask.hpp"

namespace prototag {
namespace {

constexpr std::int64_t kGroup = 32;  // vectors processed together
constexpr float kRounding = 2e-6f;   // relative float32 rounding error of |c|^2 / 2

template <typename Compare>
PROTOTAG_INLINE void nearest_centroids_all(const Int8Prototypes& z, const float* centres, const float* half,
                                 const float* vectors, std::int64_t n, std::int64_t* label,
                                 float* affinity) {
  Int8Vector int8[kGroup];
  const Int8Vector* each_one[kGroup];
  std::vector<std::int32_t> candidate[kGroup];
  std::vector<float> exact;
  std::int32_t product[kTogether * kTile];
  float most[kTile];
  for (std::int64_t first = 0; first < n; first += kGroup) {
    const int some = static_cast<int>(std::min(kGroup, n - first));
    for (int v = 0; v < some; ++v) {
      const float* x = vectors + (first + v) * z.width;
      int8[v].take(x, z), each_one[v] = int8 + v;
      candidate[v].clear();
      const auto guess = static_cast<std::int32_t>(label[first + v]);
      detail::dot_rows(centres, z.width, &guess, 1, x, z.width, affinity + first + v);
      affinity[first + v] -= half[guess];
    }
    for (std::int64_t tile = 0; tile < z.tiles(); ++tile) {
      const std::int64_t at = tile * kTile, left = z.count - at;
      const float *scale = z.scale + at, *error = z.error + at, *length = z.length + at;
      const Mask there = left < kTile ? (Mask{1} << left) - 1 : ~Mask{0};
      float offset[kTile] = {};
      for (std::int64_t j = 0; j < std::min(left, kTile); ++j) {
        offset[j] = half[at + j] * (1 - kRounding);
      }
      for (int v = 0; v < some; v += kTogether) {
        const int together = std::min<int>(kTogether, some - v);
        multiply(z, tile, each_one + v, together, product);
        for (int i = 0; i < together; ++i) {
          const Int8Vector& x = int8[v + i];
          const std::int32_t* from = product + i * kTile;
          for (std::int64_t j = 0; j < kTile; ++j) {
            most[j] = (static_cast<float>(from[j] - x.offset) * scale[j] + error[j] * x.norm +
                       length[j] * x.error) * x.scale - offset[j];
          }
          const float bound = affinity[first + v + i];
          each(Compare::not_at_most(most, bound - kRounding * (bound < 0 ? -bound : bound)) & there,
               [&](std::int64_t j) { candidate[v + i].push_back(static_cast<std::int32_t>(at + j)); });
        }
      }
    }
    for (int v = 0; v < some; ++v) {
      const auto count = static_cast<std::int64_t>(candidate[v].size());
      exact.resize(candidate[v].size());
      detail::dot_rows(centres, z.width, candidate[v].data(), count,
                       vectors + (first + v) * z.width, z.width, exact.data());
      float best = affinity[first + v];
      std::int64_t found = label[first + v];
      for (std::int64_t j = 0; j < count; ++j) {
        const std::int64_t c = candidate[v][j];
        const float value = exact[j] - half[c];
        if (value > best || (value == best && c < found)) best = value, found = c;
      }
      affinity[first + v] = best, label[first + v] = found;
    }
  }
}

#ifdef PROTOTAG_X86
PROTOTAG_AVX2 void nearest_centroids_avx2(const Int8Prototypes& z, const float* centres, const float* half,
                                const float* vectors, std::int64_t n, std::int64_t* label,
                                float* affinity) {
  nearest_centroids_all<Avx2>(z, centres, half, vectors, n, label, affinity);
}
PROTOTAG_AVX512 void nearest_centroids_avx512(const Int8Prototypes& z, const float* centres, const float* half,
                                    const float* vectors, std::int64_t n, std::int64_t* label,
                                    float* affinity) {
  nearest_centroids_all<Avx512>(z, centres, half, vectors, n, label, affinity);
}
#endif

}  // namespace

void nearest_centroids(const Int8Prototypes& z, const float* centres, const float* half, const float* vectors,
             std::int64_t n, std::int64_t* label, float* affinity) {
#ifdef PROTOTAG_X86
  if (instructions() == kAvx512) {
    return nearest_centroids_avx512(z, centres, half, vectors, n, label, affinity);
  }
  if (instructions() == kAvx2) return nearest_centroids_avx2(z, centres, half, vectors, n, label, affinity);
#endif
  nearest_centroids_all<Portable>(z, centres, half, vectors, n, label, affinity);
}

}  // namespace prototag
