#include "rowwise_matmul/rowwise_matmul.hpp"

#include <algorithm>
#include <cstring>
#include <numeric>
#include <vector>

#include "coding/dot_product.hpp"

namespace prototag {
namespace {

constexpr std::int64_t kFew = 7;       // rows up to which the matrix is not packed
constexpr std::int64_t kSteps = 8;     // matrix rows read at once without packing
constexpr std::int64_t kMany = 256;    // rows packed at a time
constexpr std::int64_t kDeep = 384;    // matrix rows packed at a time; both blocks fit into the L2 cache
constexpr std::int64_t kOthers = 96;   // rows compared with all vectors at a time, to fit into the L2 cache

#ifdef PROTOTAG_VECTORS
using Four = float __attribute__((vector_size(16)));
using Sixteen = float __attribute__((vector_size(64)));
#else
using Four = Plain<float, 4>;
#endif

template <typename Vector>
constexpr std::int64_t lanes() {
  return static_cast<std::int64_t>(sizeof(Vector) / sizeof(float));
}

template <typename Vector>
PROTOTAG_INLINE Vector take(const float* from) {
  Vector result;
  std::memcpy(&result, from, sizeof result);
  return result;
}

template <typename Vector>
PROTOTAG_INLINE void put(const Vector& sum, float* to) {
  std::memcpy(to, &sum, sizeof sum);
}

// Adds the products of `kCount` consecutive matrix rows with the numbers of `kRows` rows to their sums.
template <typename Vector, int kRows, int kCount>
PROTOTAG_INLINE void add(const float* rows, std::int64_t depth, const float* matrix,
                         std::int64_t columns, float* out) {
  constexpr std::int64_t kLanes = lanes<Vector>();
  float x[kRows][kCount];  // a local copy, which cannot alias `out`
  for (int r = 0; r < kRows; ++r) std::copy_n(rows + r * depth, kCount, x[r]);
  const std::int64_t body = columns - columns % kLanes;
  for (std::int64_t j = 0; j < body; j += kLanes) {
    Vector sum[kRows];
    for (int r = 0; r < kRows; ++r) sum[r] = take<Vector>(out + r * columns + j);
    for (int step = 0; step < kCount; ++step) {
      const Vector w = take<Vector>(matrix + step * columns + j);
      for (int r = 0; r < kRows; ++r) sum[r] += w * x[r][step];
    }
    for (int r = 0; r < kRows; ++r) put(sum[r], out + r * columns + j);
  }
  if (body == columns) return;
  const std::int64_t bytes = static_cast<std::int64_t>(sizeof(float)) * (columns - body);
  float edge[kLanes] = {};  // the remainder uses vector operations too, for identical rounding
  for (int r = 0; r < kRows; ++r) {
    std::memcpy(edge, out + r * columns + body, bytes);
    Vector sum = take<Vector>(edge);
    for (int step = 0; step < kCount; ++step) {
      std::memcpy(edge, matrix + step * columns + body, bytes);
      sum += take<Vector>(edge) * x[r][step];
    }
    put(sum, edge);
    std::memcpy(out + r * columns + body, edge, bytes);
  }
}

// Multiplies `kRows` rows, reading the matrix once in memory order; sums are in `out`.
template <typename Vector, int kRows>
PROTOTAG_INLINE void stream(const float* rows, std::int64_t depth, const float* matrix,
                            std::int64_t columns, float* out) {
  std::fill(out, out + kRows * columns, 0.0f);
  std::int64_t k = 0;
  for (; k + kSteps <= depth; k += kSteps) {
    add<Vector, kRows, kSteps>(rows + k, depth, matrix + k * columns, columns, out);
  }
  for (; k < depth; ++k) add<Vector, kRows, 1>(rows + k, depth, matrix + k * columns, columns, out);
}

// Multiplies `kRows` packed rows by a packed tile of columns; sums stay in registers.
template <typename Vector, int kRows, int kWide>
PROTOTAG_INLINE void tile(const float* rows, std::int64_t deep, const float* packed,
                          std::int64_t columns, std::int64_t some, bool first, float* out) {
  constexpr std::int64_t kLanes = lanes<Vector>();
  Vector sum[kRows][kWide];
  float edge[kWide * kLanes] = {};
  for (int r = 0; r < kRows; ++r) {
    if (!first) std::memcpy(edge, out + r * columns, sizeof(float) * some);
    for (int c = 0; c < kWide; ++c) sum[r][c] = take<Vector>(edge + c * kLanes);
  }
  for (std::int64_t k = 0; k < deep; ++k, packed += kWide * kLanes) {
    Vector w[kWide];
    for (int c = 0; c < kWide; ++c) w[c] = take<Vector>(packed + c * kLanes);
    for (int r = 0; r < kRows; ++r) {
      const float x = rows[r * deep + k];
      for (int c = 0; c < kWide; ++c) sum[r][c] += w[c] * x;
    }
  }
  for (int r = 0; r < kRows; ++r) {
    for (int c = 0; c < kWide; ++c) put(sum[r][c], edge + c * kLanes);
    std::memcpy(out + r * columns, edge, sizeof(float) * some);
  }
}

template <typename Vector, int kRows, int kWide>
PROTOTAG_INLINE void tiles(const float* rows, std::int64_t n, std::int64_t depth,
                           const float* matrix, std::int64_t columns, float* out) {
  constexpr std::int64_t kTile = kWide * lanes<Vector>();
  thread_local std::vector<float> packed, packed_rows;
  packed.resize(kDeep * kTile);
  packed_rows.resize(kDeep * kMany);
  for (std::int64_t k = 0; k < depth; k += kDeep) {
    const std::int64_t deep = std::min(kDeep, depth - k);
    for (std::int64_t i = 0; i < n; ++i) {
      std::copy_n(rows + i * depth + k, deep, packed_rows.data() + i * deep);
    }
    for (std::int64_t j = 0; j < columns; j += kTile) {
      const std::int64_t some = std::min(kTile, columns - j);
      if (some < kTile) std::fill(packed.begin(), packed.end(), 0.0f);
      for (std::int64_t i = 0; i < deep; ++i) {
        std::copy_n(matrix + (k + i) * columns + j, some, packed.data() + i * kTile);
      }
      std::int64_t i = 0;
      for (; i + kRows <= n; i += kRows) {
        tile<Vector, kRows, kWide>(packed_rows.data() + i * deep, deep, packed.data(), columns,
                                   some, k == 0, out + i * columns + j);
      }
      for (; i < n; ++i) {
        tile<Vector, 1, kWide>(packed_rows.data() + i * deep, deep, packed.data(), columns, some,
                               k == 0, out + i * columns + j);
      }
    }
  }
}

template <typename Vector, int kRows, int kWide>
PROTOTAG_INLINE void multiply_all(const float* rows, std::int64_t n, std::int64_t depth,
                                  const float* matrix, std::int64_t columns, float* out) {
  if (depth == 0) std::fill_n(out, n * columns, 0.0f);
  std::int64_t i = 0;
  while (n - i > kFew) {
    const std::int64_t some = std::min(kMany, n - i);
    tiles<Vector, kRows, kWide>(rows + i * depth, some, depth, matrix, columns, out + i * columns);
    i += some;
  }
  for (; i + 4 <= n; i += 4) stream<Vector, 4>(rows + i * depth, depth, matrix, columns, out + i * columns);
  for (; i + 2 <= n; i += 2) stream<Vector, 2>(rows + i * depth, depth, matrix, columns, out + i * columns);
  if (i < n) stream<Vector, 1>(rows + i * depth, depth, matrix, columns, out + i * columns);
}

PROTOTAG_INLINE void compare_all(const float* rows, std::int64_t n, std::int64_t depth,
                                 const float* others, std::int64_t count, float* out) {
  std::int32_t index[kOthers];
  std::iota(index, index + kOthers, 0);
  for (std::int64_t j = 0; j < count; j += kOthers) {
    const std::int64_t some = std::min(kOthers, count - j);
    const float* some_others = others + j * depth;
    std::int64_t i = 0;
    for (; i + 4 <= n; i += 4) {
      const float* x = rows + i * depth;
      float* to = out + i * count + j;
      const float* const four[4] = {x, x + depth, x + 2 * depth, x + 3 * depth};
      float* const outs[4] = {to, to + count, to + 2 * count, to + 3 * count};
      detail::dot_rows_by_four(some_others, depth, index, some, four, depth, outs);
    }
    for (; i < n; ++i) {
      detail::dot_rows(some_others, depth, index, some, rows + i * depth, depth,
                       out + i * count + j);
    }
  }
}

#ifdef PROTOTAG_X86
PROTOTAG_AVX512 void multiply_avx512(const float* rows, std::int64_t n, std::int64_t depth,
                                     const float* matrix, std::int64_t columns, float* out) {
  multiply_all<Sixteen, 6, 4>(rows, n, depth, matrix, columns, out);
}
PROTOTAG_AVX2 void multiply_avx2(const float* rows, std::int64_t n, std::int64_t depth,
                                 const float* matrix, std::int64_t columns, float* out) {
  multiply_all<Lane, 4, 3>(rows, n, depth, matrix, columns, out);
}
PROTOTAG_AVX2 void compare_avx2(const float* rows, std::int64_t n, std::int64_t depth,
                                const float* others, std::int64_t count, float* out) {
  compare_all(rows, n, depth, others, count, out);
}
#endif

}  // namespace

void rowwise_matmul(const float* rows, std::int64_t n, std::int64_t depth, const float* matrix,
                   std::int64_t columns, float* out) {
#ifdef PROTOTAG_X86
  if (instructions() == kAvx512) return multiply_avx512(rows, n, depth, matrix, columns, out);
  if (instructions() == kAvx2) return multiply_avx2(rows, n, depth, matrix, columns, out);
#endif
  multiply_all<Four, 4, 2>(rows, n, depth, matrix, columns, out);
}

void rowwise_matmul_transposed(const float* rows, std::int64_t n, std::int64_t depth, const float* others,
                  std::int64_t count, float* out) {
#ifdef PROTOTAG_X86
  if (instructions() != kPortable) return compare_avx2(rows, n, depth, others, count, out);
#endif
  compare_all(rows, n, depth, others, count, out);
}

void weighted_row_sums(const std::int32_t* index, const float* weight, std::int64_t n, std::int64_t width,
                  const Entries& matrix, std::int64_t columns, float* out) {
  std::fill_n(out, n * columns, 0.0f);
  for (std::int64_t i = 0; i < n; ++i, index += width, weight += width, out += columns) {
    for (std::int64_t j = 0; j < width; ++j) {
      if (weight[j] == 0) continue;
      const std::int64_t stop = matrix.start[index[j] + 1];
      for (std::int64_t e = matrix.start[index[j]]; e < stop; ++e) {
        out[matrix.column[e]] += weight[j] * matrix.value[e];
      }
    }
  }
}

}  // namespace prototag
