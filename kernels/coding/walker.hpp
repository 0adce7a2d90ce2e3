// The path of the non-negative lasso with an l1 budget and a cap on the non-zeros (LARS).
//
// For one image, over the candidates W with correlations c = Z_W (target - a Z):
// the active prototypes share the largest correlation lambda; along u = G_AA^-1 1 it falls by delta
// while a grows by delta u, and the other correlations fall by delta G_WA u. The step ends where
// another prototype reaches lambda (it enters), a coefficient reaches zero (it leaves), the budget is
// spent, or lambda is zero. Correlations and (G_AA)^-1 are kept in double; the products are float32.
#pragma once

#include <algorithm>
#include <cmath>
#include <cstring>
#include <limits>
#include <vector>

#include "coding/dot.hpp"
#include "coding/lars.hpp"

namespace prototag {
using Quad = double __attribute__((vector_size(32)));
using Half = float __attribute__((vector_size(16)));

constexpr double kZero = 1e-6;  // of the first lambda: below, correlations in float32 are rounding
constexpr double kCrumb = 1e-6;  // of a code's sum: what rounding leaves of an image that is a prototype
constexpr double kTie = 1e-5;    // of lambda: closer correlations are equal in float32
constexpr double kTied = 1e-9;  // falls with lambda as far as double tells
constexpr double kInfinity = std::numeric_limits<double>::infinity();
// A prototype whose squared distance from the span of the active ones is below the rounding of
// float32 products would make G_AA singular: it waits until a prototype has left.
constexpr double kDependent = 1e-6;
constexpr int kAhead = 4;  // Gram rows computed together, for the next few that are likely to enter

// The path of one image. Buffers live as long as the block, so that nothing is allocated per image.
struct Walker {
  const Dictionary& z;
  const Limits& limits;
  const std::int64_t width, cap;
  const std::int64_t stride = cap + 1;

  std::int32_t* candidate = nullptr;
  std::int64_t total = 0, size = 0;  // candidates, and those in the core
  std::int64_t row_stride = 0;       // of the Gram rows: `total`, rounded up to whole vectors
  double weight = 0, budget = 0;

  std::vector<float> gram, vectors;  // rows over the candidates; scaled [d | w s] vectors
  std::vector<float> start, promise;  // products with the target, with the residual
  std::vector<int> row_of, active, blocked;  // candidate -> Gram row or -1; positions of candidates
  std::vector<std::int64_t> filled;          // of each Gram row: columns computed
  std::vector<double> correlation, slope, shut;  // shut: infinity where a candidate cannot enter
  std::vector<double> coefficient, direction, inverse, column;
  std::vector<const float*> rows;  // Gram rows of the active prototypes

  Walker(const Dictionary& dictionary, const Limits& bounds)
      : z(dictionary), limits(bounds), width(dictionary.visual + dictionary.labels),
        cap(bounds.max_nonzeros), vectors(kAhead * width), coefficient(stride), direction(stride),
        inverse(stride * stride), column(stride), rows(stride) {}

  double omega(std::int64_t j) const { return z.weights ? z.weights[candidate[j]] : 1.0; }

  // [v_visual | weight v_labels], so that one inner product serves visual and coupled coding.
  PROTOTAG_INLINE const float* scaled(const float* v, float* buffer) const {
    if (!z.labels) return v;
    std::copy(v, v + z.visual, buffer);
    const float w = static_cast<float>(weight);
    for (std::int64_t c = z.visual; c < width; ++c) buffer[c] = w * v[c];
    return buffer;
  }

  // Columns from..size of the Gram rows of `count` candidates.
  PROTOTAG_INLINE void fill(const int* wanted, int count, std::int64_t from,
                            const Products& products) {
    const std::int64_t columns = size - from;
    const std::int32_t* column = candidate + from;
    float* row[kAhead];
    const float* v[kAhead];
    for (int r = 0; r < count; ++r) {
      row[r] = gram.data() + row_of[wanted[r]] * row_stride + from;
      const std::int64_t own = candidate[wanted[r]];
      if (z.visual_gram) {
        const float* visual = z.visual_gram + own * z.count;
        for (std::int64_t j = 0; j < columns; ++j) row[r][j] = visual[column[j]];
        if (!z.labels) continue;
        const float* label = z.label_gram + own * z.count;
        const float w = static_cast<float>(weight);
        for (std::int64_t j = 0; j < columns; ++j) row[r][j] += w * label[column[j]];
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
      if (!z.weights) continue;
      const double own = omega(wanted[r]);
      for (std::int64_t j = 0; j < columns; ++j) {
        row[r][j] = static_cast<float>(row[r][j] / (own * omega(from + j)));
      }
    }
  }

  // Gram row of candidate i over the core, computed together with those of the next in line.
  PROTOTAG_INLINE const float* gram_row(int i, const Products& products) {
    if (row_of[i] >= 0) {
      const std::int64_t columns = filled[row_of[i]];
      if (columns < size) fill(&i, 1, columns, products);
      return gram.data() + row_of[i] * row_stride;
    }
    int wanted[kAhead] = {i};
    int count = 1;
    if (!z.visual_gram) {
      double best[kAhead] = {0, -kInfinity, -kInfinity, -kInfinity};
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
    return gram.data() + row_of[i] * row_stride;
  }

  // Candidate i joins: (G_AA)^-1 and direction = (G_AA)^-1 1 grow by one. False if it depends on
  // the active ones.
  PROTOTAG_INLINE bool append(int i, const float* row) {
    const std::int64_t q = static_cast<std::int64_t>(active.size());
    double* w = column.data();  // (G_AA)^-1 G_Ai
    std::fill(w, w + q, 0.0);
    for (std::int64_t a = 0; a < q; ++a) {
      const double g = row[active[a]];
      const double* inv = inverse.data() + a * stride;
      for (std::int64_t b = 0; b < q; ++b) w[b] += g * inv[b];
    }
    double schur = row[i], fall = 1.0;
    for (std::int64_t a = 0; a < q; ++a) {
      schur -= row[active[a]] * w[a];
      fall -= row[active[a]] * direction[a];
    }
    if (!(schur > kDependent * row[i])) return false;
    const double scale = 1.0 / schur;
    for (std::int64_t a = 0; a < q; ++a) {
      double* inv = inverse.data() + a * stride;
      const double wa = w[a] * scale;
      for (std::int64_t b = 0; b < q; ++b) inv[b] += wa * w[b];
      inv[q] = inverse[q * stride + a] = -wa;
      direction[a] -= fall * wa;
    }
    inverse[q * stride + q] = scale;
    direction[q] = fall * scale;
    coefficient[q] = 0;
    active.push_back(i);
    return true;
  }

  // The active prototype at position p leaves; the last one takes its place.
  PROTOTAG_INLINE void remove(std::int64_t p) {
    const std::int64_t last = static_cast<std::int64_t>(active.size()) - 1;
    double* f = inverse.data();
    if (p != last) {
      for (std::int64_t a = 0; a <= last; ++a) std::swap(f[a * stride + p], f[a * stride + last]);
      std::swap_ranges(f + p * stride, f + p * stride + last + 1, f + last * stride);
      std::swap(direction[p], direction[last]);
      std::swap(coefficient[p], coefficient[last]);
      std::swap(active[p], active[last]);
    }
    const double* gone = f + last * stride;
    const double scale = 1.0 / gone[last];
    for (std::int64_t a = 0; a < last; ++a) {
      const double share = gone[a] * scale;
      for (std::int64_t b = 0; b < last; ++b) f[a * stride + b] -= share * gone[b];
      direction[a] -= share * direction[last];
    }
    active.pop_back();
  }

  // Slopes of all correlations along the direction, and the shortest step at which one of them
  // reaches lambda. The step before, `delta` along the old slopes, is carried out on the way.
  PROTOTAG_INLINE double advance(double delta, double lambda, int& nearest) {
    const std::int64_t q = static_cast<std::int64_t>(active.size());
    for (std::int64_t a = 0; a < q; ++a) rows[a] = gram.data() + row_of[active[a]] * row_stride;
    Quad shortest = Quad{} + kInfinity, where{}, here = {0, 1, 2, 3};
    for (std::int64_t j = 0; j < size; j += 4, here += 4.0) {
      Quad g{}, c, old, bar;
      for (std::int64_t a = 0; a < q; ++a) {
        Half h;
        std::memcpy(&h, rows[a] + j, sizeof h);
        g += direction[a] * __builtin_convertvector(h, Quad);
      }
      std::memcpy(&c, correlation.data() + j, sizeof c);
      std::memcpy(&old, slope.data() + j, sizeof old);
      std::memcpy(&bar, shut.data() + j, sizeof bar);
      c -= delta * old;
      const Quad fall = 1.0 - g, lead = lambda - c;
      Quad reach = (lead > 0.0 ? lead : Quad{}) / fall;
      reach = (fall > kTied ? reach : Quad{} + kInfinity) + bar;
      where = reach < shortest ? here : where;
      shortest = reach < shortest ? reach : shortest;
      std::memcpy(correlation.data() + j, &c, sizeof c);
      std::memcpy(slope.data() + j, &g, sizeof g);
    }
    int lane = 0;
    for (int l = 1; l < 4; ++l) {
      if (shortest[l] < shortest[lane]) lane = l;
    }
    nearest = static_cast<int>(where[lane]);
    return shortest[lane];
  }

  // Of twins the first prototype enters, in whatever order the candidates stand.
  PROTOTAG_INLINE int first_twin(int j) const {
    int first = j;
    for (std::int64_t i = 0; i < size; ++i) {
      if (correlation[i] == correlation[j] && slope[i] == slope[j] && shut[i] == 0 &&
          candidate[i] < candidate[first]) {
        first = static_cast<int>(i);
      }
    }
    return first;
  }

  PROTOTAG_INLINE Ending walk(double& lambda, const Products& products) {
    const std::int64_t padded = (size + 3) / 4 * 4;
    correlation.assign(padded, 0.0), slope.assign(padded, 0.0), shut.assign(padded, kInfinity);
    for (std::int64_t j = 0; j < size; ++j) correlation[j] = start[j] / omega(j), shut[j] = 0;
    active.clear(), blocked.clear();

    int entering = -1;
    for (std::int64_t j = 0; j < size; ++j) {
      const double lead = entering < 0 ? 1.0 : correlation[j] - correlation[entering];
      if (lead > 0 || (lead == 0 && candidate[j] < candidate[entering])) {
        entering = static_cast<int>(j);
      }
    }
    lambda = entering < 0 ? 0.0 : std::max(correlation[entering], 0.0);
    if (lambda == 0) return kOptimum;
    const double end = kZero * lambda;
    double spent = 0, delta = 0;
    int left = -1;  // the prototype that left last: it cannot come back in the very next step
    const std::int64_t max_steps = 8 * (cap + 8);
    for (std::int64_t step = 0; step < max_steps; ++step) {
      if (entering >= 0) {
        shut[entering] = kInfinity;
        if (!append(entering, gram_row(entering, products))) blocked.push_back(entering);
        if (active.empty()) return kOptimum;  // a prototype of length zero, all alone
        if (static_cast<std::int64_t>(active.size()) > cap) {
          active.pop_back();
          return kCap;
        }
      }
      const std::int64_t q = static_cast<std::int64_t>(active.size());
      const double* u = direction.data();
      int nearest = -1;
      const double enter = advance(delta, lambda, nearest);
      double growth = 0;
      for (std::int64_t a = 0; a < q; ++a) growth += u[a];
      delta = std::max(lambda - end, 0.0);
      Ending ending = kOptimum;
      if (const double until = (budget - spent) / growth; until < delta) {
        delta = std::max(until, 0.0), ending = kBudget;
      }
      std::int64_t leaving = -1;
      for (std::int64_t a = 0; a < q; ++a) {
        if (u[a] < 0 && -coefficient[a] / u[a] < delta) delta = -coefficient[a] / u[a], leaving = a;
      }
      if (left >= 0) shut[left] = 0;
      left = entering = -1;
      if (enter < delta) delta = enter, entering = first_twin(nearest);
      for (std::int64_t a = 0; a < q; ++a) coefficient[a] += delta * u[a];
      lambda -= delta;
      spent += delta * growth;
      if (entering >= 0) continue;
      if (leaving < 0) return ending;
      left = active[leaving];
      spent -= coefficient[leaving];
      remove(leaving);
      for (const int j : blocked) shut[j] = 0;
      blocked.clear();
      if (active.empty()) return kOptimum;
    }
    return kStalled;
  }

  // residual = target - a Z over the core's code.
  PROTOTAG_INLINE void subtract(const float* target, float* residual) const {
    std::copy(target, target + width, residual);
    for (std::size_t a = 0; a < active.size(); ++a) {
      const float value = static_cast<float>(coefficient[a] / omega(active[a]));
      const float* row = z.rows + candidate[active[a]] * width;
      for (std::int64_t c = 0; c < width; ++c) residual[c] -= value * row[c];
    }
  }

  // Follow the path over the core, the first `size` candidates, let in those of the others that the
  // path would have met, and follow it again, until none is left out.
  PROTOTAG_INLINE Ending code(const float* target, float* residual, double& lambda,
                              const Products& products) {
    row_stride = (total + 7) / 8 * 8;
    row_of.assign(total, -1);
    filled.clear();
    start.resize(total);
    std::int64_t known = 0;
    while (true) {
      products.one(z.rows, width, candidate + known, size - known, scaled(target, vectors.data()),
                   width, start.data() + known);
      known = size;
      const Ending ending = walk(lambda, products);
      subtract(target, residual);
      if (size == total) return ending;
      const std::int64_t others = total - size;
      promise.resize(others);
      products.one(z.rows, width, candidate + size, others, scaled(residual, vectors.data()), width,
                   promise.data());
      // What ties with lambda joins too: it may be a twin of an active prototype, and come first.
      const double bound = (ending == kCap ? limits.near : 1 - kTie) * lambda - kTie * kZero;
      std::int64_t grown = size;
      for (std::int64_t j = 0; j < others; ++j) {
        if (promise[j] / omega(known + j) <= bound) continue;
        std::swap(candidate[grown], candidate[known + j]);
        ++grown;
      }
      if (grown == size) return ending;
      size = grown;
    }
  }
};


}  // namespace prototag
