// Python bindings of all kernels: they take arrays, write into arrays, and release the interpreter lock.

#include <nanobind/nanobind.h>
#include <nanobind/ndarray.h>
#include <nanobind/stl/optional.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/tuple.h>

#include <algorithm>
#include <iterator>

#include "coding/nearest_centroid.hpp"
#include "coding/int8_quantization.hpp"
#include "coding/cpu_dispatch.hpp"
#include "coding/encoder.hpp"
#include "coding/screening.hpp"
#include "knn/knn.hpp"
#include "rowwise_matmul/rowwise_matmul.hpp"
#include "ranking_metrics/ranking_metrics.hpp"
#include "coordinate_descent/coordinate_descent.hpp"
#include "dual_svm/dual_svm.hpp"
#include "group_lasso/group_lasso.hpp"

namespace nb = nanobind;
using namespace nb::literals;

namespace {

template <typename T, int N>
using In = nb::ndarray<const T, nb::ndim<N>, nb::c_contig, nb::device::cpu>;
template <typename T, int N>
using Out = nb::ndarray<T, nb::ndim<N>, nb::c_contig, nb::device::cpu>;
template <typename T, int N>
using Maybe = std::optional<In<T, N>>;

template <typename T>
const auto* pointer(const T& array) {
  return array ? array->data() : nullptr;
}

const char* const kNames[] = {"portable", "avx2", "avx512"};

// Int8 prototypes as a Python tuple: codes, (scale, error, length), visual columns, all columns, label scale.
template <template <typename, int> typename Array>
using PackedAs =
    std::tuple<Array<std::uint8_t, 1>, Array<float, 2>, std::int64_t, std::int64_t, float>;
using Packed = PackedAs<In>;

template <template <typename, int> typename Array>
prototag::Int8Prototypes view(const PackedAs<Array>& packed, std::int64_t count) {
  const auto& [codes, bounds, visual, width, label_scale] = packed;
  const auto stride = (std::int64_t)bounds.shape(1);
  return {codes.data(), bounds.data(), bounds.data() + stride, bounds.data() + 2 * stride,
          count,        visual,        width,                  label_scale};
}

// Functions of scores in float32 or float64.
template <typename Score>
void bind_rankings(nb::module_& module) {
  module.def(
      "sort_scores",
      [](In<Score, 2> scores, In<bool, 2> tags, Out<Score, 1> ranked, Out<bool, 1> right) {
        nb::gil_scoped_release release;
        prototag::sort_scores(scores.data(), tags.data(), (std::int64_t)scores.size(), ranked.data(),
                       right.data());
      },
      "scores"_a.noconvert(), "tags"_a, "ranked"_a.noconvert(), "right"_a.noconvert());

  module.def(
      "rank_tags",
      [](In<Score, 2> scores, In<bool, 2> tags, Out<double, 1> precision, Out<double, 1> area,
         Out<Score, 1> best, Out<Score, 1> lower) {
        nb::gil_scoped_release release;
        prototag::rank_tags<Score>(
            scores.data(), tags.data(), scores.shape(0), scores.shape(1),
            {precision.data(), area.data(), best.data(), lower.data()});
      },
      "scores"_a.noconvert(), "tags"_a, "precision"_a.noconvert(), "area"_a.noconvert(),
      "best"_a.noconvert(), "lower"_a.noconvert());

  module.def(
      "top_tags",
      [](In<Score, 2> scores, Out<std::int32_t, 2> index) {
        nb::gil_scoped_release release;
        prototag::top_tags(scores.data(), scores.shape(0), scores.shape(1), index.shape(1),
                      index.data());
      },
      "scores"_a.noconvert(), "index"_a.noconvert());

  module.def(
      "sweep_band",
      [](In<Score, 2> scores, In<bool, 2> tags, Score low, Score high,
         In<std::int64_t, 1> present, Out<std::int64_t, 1> hits, Out<std::int64_t, 1> given,
         Out<Score, 1> cut, Out<double, 1> precision, Out<double, 1> recall,
         Out<std::int64_t, 1> all_hits, Out<std::int64_t, 1> all_given) {
        nb::gil_scoped_release release;
        return prototag::sweep_band<Score>(
            scores.data(), tags.data(), scores.shape(0), scores.shape(1), low, high,
            present.data(), hits.data(), given.data(), (std::int64_t)cut.shape(0),
            {cut.data(), precision.data(), recall.data(), all_hits.data(), all_given.data()});
      },
      "scores"_a.noconvert(), "tags"_a, "low"_a, "high"_a, "present"_a, "hits"_a.noconvert(),
      "given"_a.noconvert(), "cut"_a.noconvert(), "precision"_a.noconvert(),
      "recall"_a.noconvert(), "all_hits"_a.noconvert(), "all_given"_a.noconvert());
}

}  // namespace

NB_MODULE(_kernels, module) {
  module.doc() = "Compiled kernels: functions of arrays, without validation; see kernels/.";

  module.def(
      "instructions",
      [](std::optional<std::string> wanted) {
        if (wanted) {
          const auto* name = std::find(std::begin(kNames), std::end(kNames), *wanted);
          if (name == std::end(kNames)) throw nb::value_error("portable, avx2 or avx512");
          prototag::limit_instructions(static_cast<prototag::Instructions>(name - kNames));
        }
        return kNames[prototag::instructions()];
      },
      "wanted"_a = nb::none());

  bind_rankings<float>(module);
  bind_rankings<double>(module);

  module.def(
      "quantize_prototypes",
      [](In<float, 2> rows, Maybe<float, 1> weights, PackedAs<Out> packed) {
        nb::gil_scoped_release release;
        prototag::quantize_prototypes(rows.data(), pointer(weights), view<Out>(packed, (std::int64_t)rows.shape(0)));
      },
      "rows"_a, "weights"_a.none(), "packed"_a);

  module.def(
      "screen",
      [](Packed packed, std::int64_t k, In<float, 2> hints, Maybe<std::int64_t, 1> own,
         std::int64_t width, std::int64_t core, Out<std::int32_t, 2> candidate,
         Out<std::int32_t, 1> count) {
        nb::gil_scoped_release release;
        prototag::screen_rows(view<In>(packed, k), hints.data(), pointer(own), hints.shape(0), width,
                              core, candidate.data(), count.data(), candidate.shape(1));
      },
      "packed"_a, "k"_a, "hints"_a, "own"_a.none(), "width"_a, "core"_a, "candidate"_a.noconvert(),
      "count"_a.noconvert());

  module.def(
      "possible_violators",
      [](Packed packed, std::int64_t k, In<float, 2> vectors, In<float, 1> bound,
         Out<std::uint8_t, 2> may_violate) {
        nb::gil_scoped_release release;
        prototag::possible_violator_rows(view<In>(packed, k), vectors.data(), bound.data(), vectors.shape(0),
                               may_violate.data());
      },
      "packed"_a, "k"_a, "vectors"_a, "bound"_a, "may_violate"_a.noconvert());

  module.def(
      "nearest_centroids",
      [](Packed packed, In<float, 2> centres, In<float, 1> half, In<float, 2> vectors,
         Out<std::int64_t, 1> label, Out<float, 1> affinity) {
        nb::gil_scoped_release release;
        prototag::nearest_centroids(view<In>(packed, (std::int64_t)centres.shape(0)), centres.data(),
                          half.data(), vectors.data(), vectors.shape(0), label.data(),
                          affinity.data());
      },
      "packed"_a, "centres"_a, "half"_a, "vectors"_a, "label"_a.noconvert(),
      "affinity"_a.noconvert());

  module.def(
      "encode",
      [](In<float, 2> prototypes, std::int64_t visual, Maybe<float, 2> visual_gram,
         Maybe<float, 2> label_gram, Maybe<float, 1> weights, Packed packed,
         double budget, Maybe<double, 1> budgets, double near, std::int64_t width, std::int64_t core, double tie, bool certify,
         In<float, 2> targets, Maybe<float, 1> label_weight, Maybe<float, 2> hints,
         Maybe<std::int32_t, 2> candidate, Maybe<std::int32_t, 1> candidates,
         Maybe<std::int64_t, 1> own, Out<std::int32_t, 2> index, Out<float, 2> code,
         Out<std::int32_t, 1> nonzeros, Out<float, 1> lambda, Out<std::int8_t, 1> ending,
         Out<float, 2> residual, Out<double, 1> fit, Out<float, 1> largest) {
        const auto k = (std::int64_t)prototypes.shape(0);
        const prototag::Dictionary dictionary{prototypes.data(),
                                              k,
                                              visual,
                                              (std::int64_t)prototypes.shape(1) - visual,
                                              pointer(visual_gram),
                                              pointer(label_gram),
                                              pointer(weights)};
        const prototag::Limits limits{budget, pointer(budgets), (std::int64_t)index.shape(1), near};
        const prototag::Search search{pointer(hints),
                                      pointer(candidate),
                                      pointer(candidates),
                                      candidate ? (std::int64_t)candidate->shape(1) : 0,
                                      pointer(own),
                                      width,
                                      core,
                                      tie,
                                      certify};
        const prototag::Codes codes{index.data(),  code.data(),     nonzeros.data(), lambda.data(),
                                    ending.data(), residual.data(), fit.data(),      largest.data()};
        nb::gil_scoped_release release;
        prototag::encode(dictionary, view<In>(packed, k), limits, search, targets.data(),
                         pointer(label_weight), targets.shape(0), codes);
      },
      "prototypes"_a, "visual"_a, "visual_gram"_a.none(), "label_gram"_a.none(),
      "weights"_a.none(), "packed"_a, "budget"_a, "budgets"_a.none(), "near"_a,
      "width"_a, "core"_a, "tie"_a,
      "certify"_a, "targets"_a, "label_weight"_a.none(), "hints"_a.none(), "candidate"_a.none(),
      "candidates"_a.none(), "own"_a.none(), "index"_a.noconvert(), "code"_a.noconvert(),
      "nonzeros"_a.noconvert(), "lambda_"_a.noconvert(), "ending"_a.noconvert(),
      "residual"_a.noconvert(), "fit"_a.noconvert(), "largest"_a.noconvert());

  module.def(
      "rowwise_matmul",
      [](In<float, 2> rows, In<float, 2> matrix, Out<float, 2> out) {
        nb::gil_scoped_release release;
        prototag::rowwise_matmul(rows.data(), rows.shape(0), rows.shape(1), matrix.data(),
                                matrix.shape(1), out.data());
      },
      "rows"_a, "matrix"_a, "out"_a.noconvert());

  module.def(
      "rowwise_matmul_transposed",
      [](In<float, 2> rows, In<float, 2> others, Out<float, 2> out) {
        nb::gil_scoped_release release;
        prototag::rowwise_matmul_transposed(rows.data(), rows.shape(0), rows.shape(1), others.data(),
                               others.shape(0), out.data());
      },
      "rows"_a, "others"_a, "out"_a.noconvert());

  module.def(
      "weighted_row_sums",
      [](In<std::int32_t, 2> index, In<float, 2> weight, In<std::int64_t, 1> start,
         In<std::int32_t, 1> column, In<float, 1> value, Out<float, 2> out) {
        nb::gil_scoped_release release;
        prototag::weighted_row_sums(index.data(), weight.data(), index.shape(0), index.shape(1),
                               {start.data(), column.data(), value.data()}, out.shape(1),
                               out.data());
      },
      "index"_a, "weight"_a, "start"_a, "column"_a, "value"_a, "out"_a.noconvert());

  module.def(
      "visual_sweep",
      [](In<std::int32_t, 1> start, In<std::int32_t, 1> index, In<float, 1> value,
         In<float, 2> target, In<std::int32_t, 1> order, bool sphere, Out<float, 2> prototypes) {
        nb::gil_scoped_release release;
        return prototag::visual_sweep(prototypes.shape(0), prototypes.shape(1),
                                      {start.data(), index.data(), value.data()}, target.data(),
                                      order.data(), sphere, prototypes.data());
      },
      "start"_a, "index"_a, "value"_a, "target"_a, "order"_a, "sphere"_a,
      "prototypes"_a.noconvert());

  module.def(
      "semantic_sweeps",
      [](In<std::int32_t, 1> column_start, In<std::int32_t, 1> column_index,
         In<float, 1> column_value, In<std::int32_t, 1> row_start, In<std::int32_t, 1> row_index,
         In<std::int32_t, 1> tag_start, In<std::int32_t, 1> tag_index, In<std::int32_t, 1> order,
         double present, double absent, bool hinge, double beta1, double rho, double upper,
         std::int64_t sweeps, bool rescale, Out<float, 2> semantic, Out<double, 1> objective) {
        nb::gil_scoped_release release;
        prototag::semantic_sweeps(
            row_start.shape(0) - 1, semantic.shape(1), semantic.shape(0),
            {column_start.data(), column_index.data(), column_value.data()},
            {row_start.data(), row_index.data(), nullptr},
            {tag_start.data(), tag_index.data(), nullptr}, order.data(), {present, absent, hinge},
            {beta1, rho, upper, sweeps, rescale}, semantic.data(), objective.data());
      },
      "column_start"_a, "column_index"_a, "column_value"_a, "row_start"_a, "row_index"_a,
      "tag_start"_a, "tag_index"_a, "order"_a, "present"_a, "absent"_a, "hinge"_a, "beta1"_a,
      "rho"_a, "upper"_a, "sweeps"_a, "rescale"_a, "semantic"_a.noconvert(),
      "objective"_a.noconvert());

  module.def(
      "group_lasso_codes",
      [](In<float, 2> gram, In<std::int32_t, 1> start, In<float, 1> curvature, In<float, 2> target,
         In<float, 2> weight, float sparsity, float ridge, bool nonnegative, std::int64_t sweeps,
         float tolerance, Out<float, 2> codes, Out<float, 1> violation) {
        nb::gil_scoped_release release;
        prototag::group_lasso_codes(
            codes.shape(0), codes.shape(1), gram.data(),
            {start.data(), curvature.data(), (std::int64_t)curvature.shape(0)}, target.data(),
            weight.data(), sparsity, ridge, nonnegative, sweeps, tolerance, codes.data(), violation.data());
      },
      "gram"_a, "start"_a, "curvature"_a, "target"_a, "weight"_a, "sparsity"_a, "ridge"_a,
      "nonnegative"_a, "sweeps"_a, "tolerance"_a, "codes"_a.noconvert(), "violation"_a.noconvert());

  module.def(
      "dual_svm",
      [](In<float, 2> X, In<bool, 2> present, In<float, 2> upper, In<float, 2> margin,
         In<std::int32_t, 1> order, std::int64_t epochs, float tolerance, Out<float, 2> alpha,
         Out<float, 2> w, Out<float, 1> violation) {
        nb::gil_scoped_release release;
        prototag::dual_svm(X.shape(0), X.shape(1), present.shape(0), X.data(), present.data(),
                           upper.data(), margin.data(), order.data(), epochs, tolerance,
                           alpha.data(), w.data(), violation.data());
      },
      "X"_a, "present"_a, "upper"_a, "margin"_a, "order"_a, "epochs"_a, "tolerance"_a,
      "alpha"_a.noconvert(), "w"_a.noconvert(), "violation"_a.noconvert());

  module.def(
      "nearest_per_tag",
      [](In<float, 2> closeness, In<std::int32_t, 1> tag_start, In<std::int32_t, 1> tag_index,
         std::int64_t t, std::int64_t most, In<std::int32_t, 1> own, Out<std::int32_t, 2> index,
         Out<float, 2> near, Out<std::int32_t, 1> count) {
        nb::gil_scoped_release release;
        prototag::nearest_per_tag(closeness.data(), closeness.shape(0), closeness.shape(1),
                          {tag_start.data(), tag_index.data()}, t, most, own.data(),
                          {index.data(), near.data(), count.data(), (std::int64_t)index.shape(1)});
      },
      "closeness"_a, "tag_start"_a, "tag_index"_a, "t"_a, "most"_a, "own"_a, "index"_a.noconvert(),
      "near"_a.noconvert(), "count"_a.noconvert());

  module.def(
      "vote",
      [](In<std::int32_t, 2> index, In<float, 2> weight, In<std::int32_t, 1> count,
         In<std::int32_t, 1> tag_start, In<std::int32_t, 1> tag_index, Out<float, 2> scores) {
        nb::gil_scoped_release release;
        prototag::vote(index.data(), weight.data(), count.data(), index.shape(0), index.shape(1),
                       {tag_start.data(), tag_index.data()}, scores.shape(1), scores.data());
      },
      "index"_a, "weight"_a, "count"_a, "tag_start"_a, "tag_index"_a, "scores"_a.noconvert());

  module.def(
      "sum_over_tags",
      [](In<std::int32_t, 2> index, In<std::int32_t, 1> count, In<std::int32_t, 1> tag_start,
         In<std::int32_t, 1> tag_index, In<float, 2> value, Out<float, 2> out) {
        nb::gil_scoped_release release;
        prototag::sum_over_tags(index.data(), count.data(), index.shape(0), index.shape(1),
                         {tag_start.data(), tag_index.data()}, value.shape(1), value.data(),
                         out.data());
      },
      "index"_a, "count"_a, "tag_start"_a, "tag_index"_a, "value"_a, "out"_a.noconvert());

  module.def(
      "minimize_coordinate",
      [](In<double, 1> a, In<double, 1> score, In<bool, 1> y, double present, double absent,
         bool hinge, double start, double beta1, double rho, double anchor, double upper) {
        return prototag::minimize_coordinate(a.shape(0), a.data(), score.data(),
                                  reinterpret_cast<const char*>(y.data()),
                                  {present, absent, hinge}, start, beta1, rho, anchor, upper);
      },
      "a"_a, "score"_a, "y"_a, "present"_a, "absent"_a, "hinge"_a, "start"_a, "beta1"_a, "rho"_a,
      "anchor"_a, "upper"_a);
}
