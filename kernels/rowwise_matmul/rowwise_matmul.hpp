// Matrix products whose bits, unlike those of BLAS, do not depend on the number of rows: an image has the same
// scores in every batch.
#pragma once

#include <cstdint>

namespace prototag {

// out (n x columns) = rows (n x depth) times matrix (depth x columns), all contiguous. Every number is summed in
// the order of depth.
void rowwise_matmul(const float* rows, std::int64_t n, std::int64_t depth, const float* matrix,
                   std::int64_t columns, float* out);

// out (n x count) = rows (n x depth) times the transpose of others (count x depth). Every number is summed as
// `detail::dot_rows` does.
void rowwise_matmul_transposed(const float* rows, std::int64_t n, std::int64_t depth, const float* others,
                  std::int64_t count, float* out);

// A CSR matrix.
struct Entries {
  const std::int64_t* start;  // rows + 1
  const std::int32_t* column;
  const float* value;
};

// out (n x columns): sums of the rows `index` (n x width) of a sparse matrix, times `weight` (n x width), in this
// order. Rows with weight zero are skipped.
void weighted_row_sums(const std::int32_t* index, const float* weight, std::int64_t n, std::int64_t width,
                  const Entries& matrix, std::int64_t columns, float* out);

}  // namespace prototag
