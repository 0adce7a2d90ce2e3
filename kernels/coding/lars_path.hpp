// LARS: the path of the non-negative lasso with an l1 budget and a cap on the non-zeros.
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

#include "coding/dot_product.hpp"
#include "coding/gram_matrix.hpp"
#include "coding/encoder.hpp"
#include "coding/simd.hpp"

namespace prototag {
constexpr double kZero = 1e-6;  // of the first lambda; smaller correlations are float32 rounding errors
constexpr double kNegligible = 1e-6;  // of a code's sum; smaller coefficients are rounding errors
constexpr double kTie = 1e-5;    // of lambda; correlations within it are equal in float32
constexpr double kTied = 1e-9;  // slope difference below which a correlation falls together with lambda
constexpr double kInfinity = std::numeric_limits<double>::infinity();
// A prototype whose squared distance from the span of the active ones is below float32 rounding would
// make G_AA singular. It is blocked until a prototype leaves.
constexpr double kDependent = 1e-6;

// The path of one image, with vectors of kLanes doubles. Buffers are reused for all images of a batch.
template <int kLanes>
struct LarsPath : CandidateGram {
  using V = typename Doubles<kLanes>::Vector;
  static PROTOTAG_INLINE void load(V& v, const double* p) { std::memcpy(&v, p, sizeof v); }
  static PROTOTAG_INLINE void store(double* p, const V& v) { std::memcpy(p, &v, sizeof v); }

  const Limits& limits;
  const std::int64_t cap;
  const std::int64_t stride = (cap + 1 + kLanes) / kLanes * kLanes;  // whole vectors

  double budget = 0;
  std::int64_t most = 0;  // maximum number of active prototypes on the last path

  std::vector<float> start, estimate;  // products with the target, with the residual
  std::vector<int> active, blocked;   // positions of candidates
  std::vector<double> correlation, slope, shut;  // shut: infinity where a candidate cannot enter
  std::vector<double> coefficient, direction, inverse, column, wanted_row;
  std::vector<const double*> rows;  // Gram rows of the active prototypes, or rows of the inverse

  LarsPath(const Dictionary& dictionary, const Limits& bounds, std::vector<double>& memory)
      : CandidateGram(dictionary, memory), limits(bounds), cap(bounds.max_nonzeros), coefficient(stride),
        direction(stride), inverse((stride + kLanes) * stride), column(stride + kLanes),
        wanted_row(stride), rows(stride) {}

  // out = sum of factor[a] rows[a] over a < q, kMany vectors wide.
  template <int kMany>
  PROTOTAG_INLINE void combine(const double* factor, std::int64_t q, std::int64_t from,
                               V* out) const {
    for (int p = 0; p < kMany; ++p) out[p] = V{};
    for (std::int64_t a = 0; a < q; ++a) {
      const double* row = rows[a] + from;
      for (int p = 0; p < kMany; ++p) {
        V r;
        load(r, row + p * kLanes);
        out[p] += factor[a] * r;
      }
    }
  }

  // Adds candidate i to the active set: (G_AA)^-1 and direction = (G_AA)^-1 1 grow by one. Returns false
  // if it depends linearly on the active ones.
  PROTOTAG_INLINE bool append(int i, const double* row) {
    const std::int64_t q = static_cast<std::int64_t>(active.size());
    double *w = column.data(), *g = wanted_row.data();  // (G_AA)^-1 G_Ai, and G_Ai
    for (std::int64_t a = 0; a < q; ++a) {
      g[a] = row[active[a]], rows[a] = inverse.data() + a * stride;
    }
    for (std::int64_t from = 0; from < q; from += 2 * kLanes) {
      V out[2];
      if (q - from > kLanes) {
        combine<2>(g, q, from, out);
        store(w + from, out[0]), store(w + from + kLanes, out[1]);
      } else {
        combine<1>(g, q, from, out);
        store(w + from, out[0]);
      }
    }
    double schur = row[i], fall = 1.0;
    for (std::int64_t a = 0; a < q; ++a) {
      schur -= g[a] * w[a];
      fall -= g[a] * direction[a];
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

  // Removes the active prototype at position p; the last one takes its place.
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

  // The shortest step to an entering prototype, and its position, per lane.
  struct Nearest {
    V reach = V{} + kInfinity, where{};
  };

  template <int kMany>
  PROTOTAG_INLINE void advance_panel(std::int64_t from, double delta, double lambda,
                                     Nearest& nearest) {
    V g[kMany], here;
    double number[kLanes];
    for (int l = 0; l < kLanes; ++l) number[l] = static_cast<double>(from + l);
    load(here, number);
    combine<kMany>(direction.data(), static_cast<std::int64_t>(active.size()), from, g);
    for (int p = 0; p < kMany; ++p, here += static_cast<double>(kLanes)) {
      const std::int64_t j = from + p * kLanes;
      V c, old, bar;
      load(c, correlation.data() + j), load(old, slope.data() + j), load(bar, shut.data() + j);
      c -= delta * old;
      const V fall = 1.0 - g[p], lead = lambda - c;
      V reach = PROTOTAG_WHERE(lead > 0.0, lead, V{}) / fall;
      reach = PROTOTAG_WHERE(fall > kTied, reach, V{} + kInfinity) + bar;
      nearest.where = PROTOTAG_WHERE(reach < nearest.reach, here, nearest.where);
      nearest.reach = PROTOTAG_WHERE(reach < nearest.reach, reach, nearest.reach);
      store(correlation.data() + j, c), store(slope.data() + j, g[p]);
    }
  }

  // Applies the previous step (`delta` along the old slopes), computes the new slopes of all correlations,
  // and returns the shortest step at which one of them reaches lambda.
  PROTOTAG_INLINE double advance(double delta, double lambda, int& first) {
    const std::int64_t q = static_cast<std::int64_t>(active.size());
    for (std::int64_t a = 0; a < q; ++a) rows[a] = row(active[a]);
    Nearest nearest;
    std::int64_t j = 0;
    for (; j + 4 * kLanes < size; j += 8 * kLanes) advance_panel<8>(j, delta, lambda, nearest);
    for (; j + 2 * kLanes < size; j += 4 * kLanes) advance_panel<4>(j, delta, lambda, nearest);
    for (; j < size; j += 2 * kLanes) advance_panel<2>(j, delta, lambda, nearest);
    double reach[kLanes], where[kLanes];
    store(reach, nearest.reach), store(where, nearest.where);
    for (int half = kLanes / 2; half > 0; half /= 2) {
      for (int l = 0; l < half; ++l) {
        const bool less = (reach[l + half] < reach[l]) |
                          ((reach[l + half] == reach[l]) & (where[l + half] < where[l]));
        reach[l] = less ? reach[l + half] : reach[l];
        where[l] = less ? where[l + half] : where[l];
      }
    }
    first = static_cast<int>(where[0]);
    return reach[0];
  }

  // Of duplicate prototypes, the one with the lowest index enters, for any order of candidates.
  PROTOTAG_INLINE int first_twin(int j) const {
    V twins{};
    const double c = correlation[j], s = slope[j];
    for (std::int64_t i = 0; i < size; i += kLanes) {
      V ci, si, bar;
      load(ci, correlation.data() + i), load(si, slope.data() + i), load(bar, shut.data() + i);
      const V far = (ci - c) * (ci - c) + (si - s) * (si - s) + bar;
      twins += PROTOTAG_WHERE(far == 0.0, V{} + 1.0, V{});
    }
    double each[kLanes], count = 0;
    store(each, twins);
    for (int l = 0; l < kLanes; ++l) count += each[l];
    if (count == 1) return j;
    int first = j;
    for (std::int64_t i = 0; i < size; ++i) {
      if (correlation[i] == c && slope[i] == s && shut[i] == 0 && candidate[i] < candidate[first]) {
        first = static_cast<int>(i);
      }
    }
    return first;
  }

  PROTOTAG_INLINE Ending follow(double& lambda, const Products& products) {
    const std::int64_t padded = size + kPanel;  // the last panel may be wider than the remainder
    correlation.assign(padded, 0.0), slope.assign(padded, 0.0), shut.assign(padded, kInfinity);
    for (std::int64_t j = 0; j < size; ++j) correlation[j] = start[j] / omega(j), shut[j] = 0;
    active.clear(), blocked.clear(), most = 0;

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
    int left = -1;  // the prototype that left last; it cannot enter in the next step
    const std::int64_t max_steps = 8 * (cap + 8);
    for (std::int64_t step = 0; step < max_steps; ++step) {
      if (entering >= 0) {
        shut[entering] = kInfinity;
        if (!append(entering, gram_row(entering, correlation, products))) blocked.push_back(entering);
        if (active.empty()) return kOptimum;  // the only candidate has length zero
        if (static_cast<std::int64_t>(active.size()) > cap) {
          active.pop_back();
          return kCap;
        }
      }
      const std::int64_t q = static_cast<std::int64_t>(active.size());
      most = std::max(most, q);
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

  // Returns whether the path has reached the cap, or would have with one more prototype.
  bool tight() const { return most + 1 >= cap; }

  // Computes residual = target - a Z for the code over the working set.
  PROTOTAG_INLINE void subtract(const float* target, float* residual) const {
    std::copy(target, target + width, residual);
    for (std::size_t a = 0; a < active.size(); ++a) {
      const float value = static_cast<float>(coefficient[a] / omega(active[a]));
      const float* row = z.rows + candidate[active[a]] * width;
      for (std::int64_t c = 0; c < width; ++c) residual[c] -= value * row[c];
    }
  }

  // Follows the path over the working set (the first `size` candidates), adds the other candidates that
  // violate optimality, and follows it again: `once`, or until none violates it.
  PROTOTAG_INLINE Ending code(const float* target, float* residual, double& lambda, bool once,
                              const Products& products) {
    begin();
    start.resize(total);
    std::int64_t known = 0;
    while (true) {
      products.one(z.rows, width, candidate + known, size - known, scaled(target, vectors.data()),
                   width, start.data() + known);
      prepare(known, products);
      const std::int64_t before = known;
      known = size;
      const Ending ending = follow(lambda, products);
      subtract(target, residual);
      if (size == total || (once && before > 0)) return ending;
      const std::int64_t others = total - size;
      estimate.resize(others);
      products.one(z.rows, width, candidate + size, others, scaled(residual, vectors.data()), width,
                   estimate.data());
      // A tie with lambda is added too: it may be a duplicate of an active prototype with a lower index.
      const double bound = (tight() ? limits.near : 1 - kTie) * lambda - kTie * kZero;
      std::int64_t grown = size;
      for (std::int64_t j = 0; j < others; ++j) {
        if (estimate[j] / omega(known + j) <= bound) continue;
        std::swap(candidate[grown], candidate[known + j]);
        ++grown;
      }
      if (grown == size) return ending;
      size = grown;
    }
  }
};


}  // namespace prototag
