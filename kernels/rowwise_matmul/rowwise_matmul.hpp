// Products of rows with a matrix whose bits depend on the row alone, never on how many rows are multiplied
// together, as they do in BLAS: the same image gets the same scores in every batch.
#pragma once

#include <cstdint>

namespace prototag {

// out (n x columns) = rows (n x depth) times matrix (depth x columns), all contiguous. Every number is summed in
// the order of depth.
void multiply_rows(const float* rows, std::int64_t n, std::int64_t depth, const float* matrix,
                   std::int64_t columns, float* out);

// out (n x count) = rows (n x depth) times the transpose of others (count x depth). Every number is summed as
// `detail::dot_rows` does.
void compare_rows(const float* rows, std::int64_t n, std::int64_t depth, const float* others,
                  std::int64_t count, float* out);

// A matrix by the entries of its rows.
struct Entries {
  const std::int64_t* start;  // rows + 1
  const std::int32_t* column;
  const float* value;
};

// out (n x columns) = the rows of a sparse matrix that `index` (n x width) names, times `weight` (n x width), added
// up in the order of the names. A weight of zero names nothing.
void combine_rows(const std::int32_t* index, const float* weight, std::int64_t n, std::int64_t width,
                  const Entries& matrix, std::int64_t columns, float* out);

}  // namespace prototag
