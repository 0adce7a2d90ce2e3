#include "ranking_metrics/ranking_metrics.hpp"

#include <algorithm>
#include <cstring>
#include <limits>
#include <type_traits>
#include <utility>
#include <vector>

namespace prototag {
namespace {

template <typename Score>
using BitsOf = std::conditional_t<sizeof(Score) == 4, std::uint32_t, std::uint64_t>;

template <typename Score>
constexpr BitsOf<Score> kSign = BitsOf<Score>{1} << (8 * sizeof(Score) - 1);

// Order-preserving bits of a score; both zeros are equal.
template <typename Score>
BitsOf<Score> to_bits(Score score) {
  BitsOf<Score> bits;
  score += Score{0};
  std::memcpy(&bits, &score, sizeof bits);
  return bits & kSign<Score> ? ~bits : bits | kSign<Score>;
}

template <typename Score>
Score to_score(BitsOf<Score> bits) {
  bits = bits & kSign<Score> ? bits & ~kSign<Score> : ~bits;
  Score score;
  std::memcpy(&score, &bits, sizeof score);
  return score;
}

template <typename Bits>
struct Cell {
  Bits key;
  std::uint32_t mark;  // twice the tag index, plus 1 if the image has the tag
};

// Cells with a stable radix sort by key.
template <typename Bits>
class Cells {
 public:
  std::vector<Cell<Bits>> all;

  void sort() {
    const std::size_t size = all.size();
    if (size < kFew) {
      std::stable_sort(all.begin(), all.end(),
                       [](const auto& a, const auto& b) { return a.key < b.key; });
      return;
    }
    count_.assign(kDigits * kValues, 0);
    for (const auto& cell : all) {
      for (int d = 0; d < kDigits; ++d) ++count_[d * kValues + digit(cell.key, d)];
    }
    spare_.resize(size);
    for (int d = 0; d < kDigits; ++d) {
      std::size_t* place = count_.data() + d * kValues;
      if (place[digit(all[0].key, d)] == size) continue;  // the same in all
      std::size_t sum = 0;
      for (std::size_t v = 0; v < kValues; ++v) sum += std::exchange(place[v], sum);
      for (const auto& cell : all) spare_[place[digit(cell.key, d)]++] = cell;
      all.swap(spare_);
    }
  }

 private:
  static constexpr std::size_t kFew = 256;
  static constexpr int kBits = 11;
  static constexpr std::size_t kValues = 1 << kBits;
  static constexpr int kDigits = (8 * sizeof(Bits) + kBits - 1) / kBits;

  static std::size_t digit(Bits key, int d) { return key >> (d * kBits) & (kValues - 1); }

  std::vector<Cell<Bits>> spare_;
  std::vector<std::size_t> count_;
};

double ratio(std::int64_t part, std::int64_t whole) {
  return whole > 0 ? static_cast<double>(part) / static_cast<double>(whole) : 0.0;
}

}  // namespace

template <typename Score>
void sort_scores(const Score* scores, const bool* tags, std::int64_t size, Score* ranked, bool* right) {
  Cells<BitsOf<Score>> cells;
  cells.all.resize(size);
  for (std::int64_t i = 0; i < size; ++i) cells.all[i] = {to_bits(scores[i]), tags[i]};
  cells.sort();
  for (std::int64_t i = 0; i < size; ++i) {
    ranked[i] = to_score<Score>(cells.all[i].key), right[i] = cells.all[i].mark != 0;
  }
}

template <typename Score>
void rank_tags(const Score* scores, const bool* tags, std::int64_t n, std::int64_t t,
                  const TagRankings<Score>& ranked) {
  constexpr Score kInfinity = std::numeric_limits<Score>::infinity();
  constexpr std::int64_t kTogether = 16;  // columns processed together, to use complete cache lines
  Cells<BitsOf<Score>> cells[kTogether];
  for (std::int64_t first = 0; first < t; first += kTogether) {
    const std::int64_t some = std::min(kTogether, t - first);
    for (std::int64_t c = 0; c < some; ++c) cells[c].all.resize(n);
    for (std::int64_t i = 0; i < n; ++i) {
      const std::int64_t at = i * t + first;
      for (std::int64_t c = 0; c < some; ++c) {  // falling
        cells[c].all[i] = {static_cast<BitsOf<Score>>(~to_bits(scores[at + c])), tags[at + c]};
      }
    }
    for (std::int64_t c = 0; c < some; ++c) {
      cells[c].sort();
      const auto* cell = cells[c].all.data();
      const auto score = [&](std::int64_t i) {
        return i < n ? to_score<Score>(static_cast<BitsOf<Score>>(~cell[i].key)) : -kInfinity;
      };
      std::int64_t all = 0, hits = 0;
      for (std::int64_t i = 0; i < n; ++i) all += cell[i].mark;
      double found = 0, above = 0;  // sum of precisions; sum of higher-scoring images without the tag
      double best = 0;
      std::int64_t from_best = n, to_best = n;
      for (std::int64_t from = 0, to = 0; from < n && hits < all; from = to) {
        std::int64_t more = 0;
        for (; to < n && cell[to].key == cell[from].key; ++to) more += cell[to].mark;
        if (more == 0) continue;
        const double misses = static_cast<double>(from - hits);
        const double tied = static_cast<double>(to - from - more);
        hits += more;
        found += static_cast<double>(more) * ratio(hits, to);
        above += static_cast<double>(more) * (misses + tied / 2);
        if (const double f1 = ratio(2 * hits, to + all); f1 > best) {
          best = f1, from_best = from, to_best = to;
        }
      }
      const std::int64_t tag = first + c;
      const double pairs = static_cast<double>(all) * static_cast<double>(n - all);
      ranked.precision[tag] = all > 0 ? found / static_cast<double>(all)
                                      : std::numeric_limits<double>::quiet_NaN();
      ranked.area[tag] = pairs > 0 ? 1 - above / pairs : 0.5;
      ranked.best[tag] = score(from_best), ranked.lower[tag] = score(to_best);
    }
  }
}

template <typename Score>
void top_tags(const Score* scores, std::int64_t n, std::int64_t t, std::int64_t count,
         std::int32_t* index) {
  for (std::int64_t i = 0; i < n; ++i, scores += t, index += count) {
    std::int64_t found = 0;  // the best first
    for (std::int64_t c = 0; c < t; ++c) {
      if (found == count && !(scores[c] > scores[index[count - 1]])) continue;
      std::int64_t p = found < count ? found++ : count - 1;
      for (; p > 0 && scores[c] > scores[index[p - 1]]; --p) index[p] = index[p - 1];
      index[p] = static_cast<std::int32_t>(c);
    }
    std::sort(index, index + count);
  }
}

template <typename Score>
std::int64_t sweep_band(const Score* scores, const bool* tags, std::int64_t n, std::int64_t t,
                        Score low, Score high, const std::int64_t* present, std::int64_t* hits,
                        std::int64_t* given, std::int64_t size, const Cuts<Score>& cuts) {
  Cells<BitsOf<Score>> cells;
  cells.all.reserve(size);
  for (std::int64_t i = 0; i < n; ++i) {
    for (std::int64_t c = 0; c < t; ++c) {
      const Score score = scores[i * t + c];
      if (!(score >= low && score < high)) continue;
      const auto mark = static_cast<std::uint32_t>(2 * c + tags[i * t + c]);
      cells.all.push_back({static_cast<BitsOf<Score>>(~to_bits(score)), mark});
    }
  }
  cells.sort();
  std::vector<double> reached(t), gain(t);  // precision of each tag; what one more hit recalls
  double precision = 0, recall = 0;
  std::int64_t right = 0, every = 0, count = 0;
  for (std::int64_t c = 0; c < t; ++c) {
    reached[c] = ratio(hits[c], given[c]), gain[c] = ratio(1, present[c]);
    precision += reached[c], recall += ratio(hits[c], present[c]);
    right += hits[c], every += given[c];
  }
  // Only the last of equal scores is a threshold, and the changes of precision up to there do not depend
  // on the order of equal scores.
  for (std::int64_t i = 0; i < size; ++i) {
    const std::int64_t c = cells.all[i].mark >> 1, hit = cells.all[i].mark & 1;
    hits[c] += hit, ++given[c];
    const double now = static_cast<double>(hits[c]) / static_cast<double>(given[c]);
    precision += now - reached[c], recall += static_cast<double>(hit) * gain[c];
    reached[c] = now;
    right += hit, ++every;
    if (i + 1 < size && cells.all[i + 1].key == cells.all[i].key) continue;
    cuts.score[count] = to_score<Score>(static_cast<BitsOf<Score>>(~cells.all[i].key));
    cuts.precision[count] = precision / static_cast<double>(t);
    cuts.recall[count] = recall / static_cast<double>(t);
    cuts.hits[count] = right, cuts.given[count] = every;
    ++count;
  }
  return count;
}

#define PROTOTAG_RANKINGS(Score)                                                                   \
  template void sort_scores(const Score*, const bool*, std::int64_t, Score*, bool*);                      \
  template void rank_tags(const Score*, const bool*, std::int64_t, std::int64_t,                \
                             const TagRankings<Score>&);                                                \
  template void top_tags(const Score*, std::int64_t, std::int64_t, std::int64_t, std::int32_t*);        \
  template std::int64_t sweep_band(const Score*, const bool*, std::int64_t, std::int64_t, Score,   \
                                   Score, const std::int64_t*, std::int64_t*, std::int64_t*,       \
                                   std::int64_t, const Cuts<Score>&);
PROTOTAG_RANKINGS(float)
PROTOTAG_RANKINGS(double)
#undef PROTOTAG_RANKINGS

}  // namespace prototag
