// Gram matrix of the candidates of an image: complete for a small working set, otherwise row by row.
#pragma once

#include <algorithm>
#include <limits>
#include <vector>

#include "coding/dot_product.hpp"
#include "coding/encoder.hpp"

namespace prototag {

constexpr int kAhead = 4;  // Gram rows computed together, of the candidates that are likely to enter next
constexpr std::int64_t kPanel = 64;    // maximum number of candidates whose slopes are computed together
constexpr std::int64_t kSquare = 168;  // row stride of a complete Gram matrix; the working set has up to kSquare - kPanel rows

struct CandidateGram {
  const Dictionary& z;
  const std::int64_t width;

  std::int32_t* candidate = nullptr;
  std::int64_t total = 0, size = 0;  // candidates, and those in the working set
  std::int64_t row_stride = 0;       // of the Gram rows: `total` plus a panel
  double weight = 0;
  bool square = false;  // whether the Gram matrix of the working set is complete

  std::vector<double>& gram;          // rows over the candidates
  std::vector<float> fresh, vectors;  // products to become Gram rows; scaled [d | w s] vectors
  std::vector<int> row_of;            // candidate -> Gram row or -1
  std::vector<std::int64_t> filled;   // of each Gram row: columns computed

  CandidateGram(const Dictionary& dictionary, std::vector<double>& memory)
      : z(dictionary), width(dictionary.visual + dictionary.labels), gram(memory),
        vectors(kAhead * width) {}

  // Resets the matrix for the candidates of another image.
  PROTOTAG_INLINE void begin() {
    square = !z.visual_gram && size <= kSquare - kPanel;
    row_stride = square ? kSquare : total + kPanel;
    if (!square) row_of.assign(total, -1);
    filled.clear();
  }

  // Prepares a path over the first `size` candidates, of which `known` were prepared before.
  PROTOTAG_INLINE void prepare(std::int64_t known, const Products& products) {
    if (square && size > kSquare - kPanel) {  // the working set has outgrown the complete matrix
      square = false, row_stride = total + kPanel;
      row_of.assign(total, -1);
    }
    if (square) fill_square(known, products);
  }

  PROTOTAG_INLINE const double* row(int i) const {
    return gram.data() + (square ? i : row_of[i]) * row_stride;
  }

  double omega(std::int64_t j) const { return z.weights ? z.weights[candidate[j]] : 1.0; }

  // [v_visual | weight v_labels], so that one inner product serves visual and coupled coding.
  PROTOTAG_INLINE const float* scaled(const float* v, float* buffer) const {
    if (!z.labels) return v;
    std::copy(v, v + z.visual, buffer);
    const float w = static_cast<float>(weight);
    for (std::int64_t c = z.visual; c < width; ++c) buffer[c] = w * v[c];
    return buffer;
  }

  // Computes columns from..size of the Gram rows of `count` candidates.
  PROTOTAG_INLINE void fill(const int* wanted, int count, std::int64_t from,
                            const Products& products) {
    const std::int64_t columns = size - from;
    const std::int32_t* column = candidate + from;
    if (static_cast<std::int64_t>(fresh.size()) < kAhead * columns) fresh.resize(kAhead * columns);
    float* row[kAhead];
    const float* v[kAhead];
    for (int r = 0; r < count; ++r) {
      row[r] = fresh.data() + r * columns;
      const std::int64_t own = candidate[wanted[r]];
      if (z.visual_gram) {
        const float* visual = z.visual_gram + own * z.count;
        if (!z.labels) {
          for (std::int64_t j = 0; j < columns; ++j) row[r][j] = visual[column[j]];
          continue;
        }
        // One loop over both matrices overlaps their cache misses.
        const float* label = z.label_gram + own * z.count;
        const float w = static_cast<float>(weight);
        for (std::int64_t j = 0; j < columns; ++j) {
          row[r][j] = visual[column[j]] + w * label[column[j]];
        }
      } else {
        v[r] = scaled(z.rows + own * width, vectors.data() + r * width);
      }
    }
    if (!z.visual_gram && count == kAhead) {
      products.four(z.rows, width, column, columns, v, width, row);
    } else if (!z.visual_gram) {
      for (int r = 0; r < count; ++r) {
        products.one(z.rows, width, column, columns, v[r], width, row[r]);
      }
    }
    for (int r = 0; r < count; ++r) {
      filled[row_of[wanted[r]]] = size;
      double* to = gram.data() + row_of[wanted[r]] * row_stride + from;
      if (z.weights) {
        const double own = omega(wanted[r]);
        for (std::int64_t j = 0; j < columns; ++j) {
          to[j] = static_cast<float>(row[r][j] / (own * omega(from + j)));
        }
      } else {
        for (std::int64_t j = 0; j < columns; ++j) to[j] = row[r][j];
      }
    }
  }

  // Computes rows from..size of the symmetric Gram matrix over a small working set, each entry once.
  PROTOTAG_INLINE void fill_square(std::int64_t from, const Products& products) {
    const std::size_t needed = static_cast<std::size_t>(kSquare * kSquare);
    if (gram.size() < needed) gram.resize(needed);
    if (static_cast<std::int64_t>(fresh.size()) < kAhead * kSquare) fresh.resize(kAhead * kSquare);
    for (std::int64_t block = from; block < size; block += kAhead) {
      const int count = static_cast<int>(std::min<std::int64_t>(kAhead, size - block));
      const std::int64_t columns = block + count;
      float* row[kAhead];
      const float* v[kAhead];
      for (int r = 0; r < kAhead; ++r) {
        const std::int64_t own = candidate[block + std::min(r, count - 1)];
        row[r] = fresh.data() + r * kSquare;
        v[r] = scaled(z.rows + own * width, vectors.data() + r * width);
      }
      if (count == 1) {
        products.one(z.rows, width, candidate, columns, v[0], width, row[0]);
      } else {
        products.four(z.rows, width, candidate, columns, v, width, row);
      }
      for (int r = 0; r < count; ++r) {
        double* to = gram.data() + (block + r) * row_stride;
        if (z.weights) {
          const double own = omega(block + r);
          for (std::int64_t j = 0; j < columns; ++j) {
            row[r][j] = static_cast<float>(row[r][j] / (own * omega(j)));
          }
        }
        for (std::int64_t j = 0; j < columns; ++j) to[j] = row[r][j];
      }
      for (std::int64_t j = 0; j < block; ++j) {
        double* to = gram.data() + j * row_stride + block;
        for (int r = 0; r < count; ++r) to[r] = row[r][j];
      }
    }
  }

  // Returns the Gram row of candidate i; rows of the next likely candidates are computed with it.
  PROTOTAG_INLINE const double* gram_row(int i, const std::vector<double>& correlation,
                                         const Products& products) {
    if (square) return row(i);
    if (row_of[i] >= 0) {
      const std::int64_t columns = filled[row_of[i]];
      if (columns < size) fill(&i, 1, columns, products);
      return row(i);
    }
    int wanted[kAhead] = {i};
    int count = 1;
    if (!z.visual_gram) {
      constexpr double kNone = -std::numeric_limits<double>::infinity();
      double best[kAhead] = {0, kNone, kNone, kNone};
      for (std::int64_t j = 0; j < size; ++j) {
        if (row_of[j] >= 0 || j == i || !(correlation[j] > best[kAhead - 1])) continue;
        int p = kAhead - 1;
        for (; p > 1 && best[p - 1] < correlation[j]; --p) {
          best[p] = best[p - 1], wanted[p] = wanted[p - 1];
        }
        best[p] = correlation[j], wanted[p] = static_cast<int>(j);
        count = std::min(count + 1, kAhead);
      }
    }
    for (int r = 0; r < count; ++r) {
      row_of[wanted[r]] = static_cast<int>(filled.size());
      filled.push_back(0);
    }
    const std::size_t needed = filled.size() * static_cast<std::size_t>(row_stride);
    if (gram.size() < needed) gram.resize(2 * needed);
    fill(wanted, count, 0, products);
    return row(i);
  }
};

}  // namespace prototag
