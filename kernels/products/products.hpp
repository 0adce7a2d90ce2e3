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

}  // namespace prototag
