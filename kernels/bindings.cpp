// The one bindings file: arrays in, arrays changed in place, the interpreter lock released.

#include <nanobind/nanobind.h>
#include <nanobind/ndarray.h>
#include <nanobind/stl/optional.h>

#include "coding/few.hpp"
#include "coding/lars.hpp"
#include "neighbours/neighbours.hpp"
#include "coding/screen.hpp"
#include "sweeps/sweeps.hpp"

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

}  // namespace

NB_MODULE(_kernels, module) {
  module.doc() = "Compiled kernels: functions of arrays, without validation; see kernels/.";

  module.def(
      "screen",
      [](In<float, 2> promise, std::int64_t offset, std::int64_t width, Out<std::uint64_t, 2> key,
         Out<std::int32_t, 1> count, Out<float, 1> floor) {
        nb::gil_scoped_release release;
        prototag::screen(promise.data(), promise.shape(0), promise.shape(1), offset, width,
                         key.data(), count.data(), key.shape(1), floor.data());
      },
      "promise"_a, "offset"_a, "width"_a, "key"_a.noconvert(), "count"_a.noconvert(),
      "floor"_a.noconvert());

  module.def(
      "settle",
      [](Out<std::uint64_t, 2> key, In<std::int32_t, 1> key_count, std::int64_t width,
         std::int64_t core, Out<std::int32_t, 2> candidate, Out<std::int32_t, 1> count) {
        nb::gil_scoped_release release;
        prototag::settle(key.data(), key_count.data(), key.shape(1), key.shape(0), width,
                         {candidate.data(), count.data(), (std::int64_t)candidate.shape(1), core});
      },
      "key"_a.noconvert(), "key_count"_a, "width"_a, "core"_a, "candidate"_a.noconvert(),
      "count"_a.noconvert());

  module.def(
      "violators",
      [](In<float, 2> correlation, std::int64_t offset, Maybe<float, 1> weights, In<float, 1> bound,
         Out<std::int32_t, 2> candidate, Out<std::int32_t, 1> count, Out<std::int32_t, 1> added,
         Out<float, 1> largest) {
        nb::gil_scoped_release release;
        prototag::violators(correlation.data(), correlation.shape(0), correlation.shape(1), offset,
                            pointer(weights), bound.data(),
                            {candidate.data(), count.data(), (std::int64_t)candidate.shape(1), 0},
                            added.data(), largest.data());
      },
      "correlation"_a, "offset"_a, "weights"_a.none(), "bound"_a, "candidate"_a.noconvert(),
      "count"_a.noconvert(), "added"_a.noconvert(), "largest"_a.noconvert());

  module.def(
      "lars",
      [](In<float, 2> prototypes, std::int64_t visual, Maybe<float, 2> visual_gram,
         Maybe<float, 2> label_gram, Maybe<float, 1> weights, double budget, double near,
         In<float, 2> targets, Maybe<float, 1> label_weight, Out<std::int32_t, 2> candidate,
         Out<std::int32_t, 1> count, std::int64_t core,
         Out<std::int32_t, 2> index, Out<float, 2> code, Out<std::int32_t, 1> nonzeros,
         Out<float, 1> lambda, Out<std::int8_t, 1> ending, Out<float, 2> residual,
         Out<double, 1> fit) {
        const std::int64_t width = prototypes.shape(1);
        prototag::Dictionary dictionary{prototypes.data(), (std::int64_t)prototypes.shape(0),
                                        visual,            width - visual,
                                        pointer(visual_gram), pointer(label_gram),
                                        pointer(weights)};
        prototag::Limits limits{budget, (std::int64_t)index.shape(1), near};
        prototag::Candidates all{candidate.data(), count.data(), (std::int64_t)candidate.shape(1),
                                 core};
        prototag::Codes codes{index.data(),  code.data(),     nonzeros.data(), lambda.data(),
                              ending.data(), residual.data(), fit.data()};
        nb::gil_scoped_release release;
        prototag::lars(dictionary, limits, targets.data(), pointer(label_weight), targets.shape(0),
                       all, codes);
      },
      "prototypes"_a, "visual"_a, "visual_gram"_a.none(), "label_gram"_a.none(),
      "weights"_a.none(), "budget"_a, "near"_a, "targets"_a, "label_weight"_a.none(),
      "candidate"_a.noconvert(), "count"_a.noconvert(), "core"_a, "index"_a.noconvert(),
      "code"_a.noconvert(), "nonzeros"_a.noconvert(), "lambda_"_a.noconvert(),
      "ending"_a.noconvert(), "residual"_a.noconvert(), "fit"_a.noconvert());

  module.def(
      "encode_few",
      [](In<float, 2> prototypes, double budget, double near, In<float, 2> targets,
         In<float, 2> hints, std::int64_t width, std::int64_t core, double tie,
         Out<std::int32_t, 2> index, Out<float, 2> code, Out<std::int32_t, 1> nonzeros,
         Out<float, 1> lambda, Out<std::int8_t, 1> ending, Out<float, 2> residual,
         Out<double, 1> fit, Out<float, 1> largest) {
        const prototag::Dictionary dictionary{prototypes.data(),
                                              (std::int64_t)prototypes.shape(0),
                                              (std::int64_t)prototypes.shape(1),
                                              0,
                                              nullptr,
                                              nullptr,
                                              nullptr};
        const prototag::Limits limits{budget, (std::int64_t)index.shape(1), near};
        const prototag::Codes codes{index.data(),  code.data(),     nonzeros.data(), lambda.data(),
                                    ending.data(), residual.data(), fit.data()};
        nb::gil_scoped_release release;
        prototag::encode_few(dictionary, limits, targets.data(), hints.data(), targets.shape(0),
                             width, core, tie, codes, largest.data());
      },
      "prototypes"_a, "budget"_a, "near"_a, "targets"_a, "hints"_a, "width"_a, "core"_a, "tie"_a,
      "index"_a.noconvert(), "code"_a.noconvert(), "nonzeros"_a.noconvert(),
      "lambda_"_a.noconvert(), "ending"_a.noconvert(), "residual"_a.noconvert(),
      "fit"_a.noconvert(), "largest"_a.noconvert());

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
         double present, double absent, bool hinge, double beta1, double rho, double most,
         std::int64_t sweeps, bool rescale, Out<float, 2> semantic, Out<double, 1> objective) {
        nb::gil_scoped_release release;
        prototag::semantic_sweeps(
            row_start.shape(0) - 1, semantic.shape(1), semantic.shape(0),
            {column_start.data(), column_index.data(), column_value.data()},
            {row_start.data(), row_index.data(), nullptr},
            {tag_start.data(), tag_index.data(), nullptr}, order.data(), {present, absent, hinge},
            {beta1, rho, most, sweeps, rescale}, semantic.data(), objective.data());
      },
      "column_start"_a, "column_index"_a, "column_value"_a, "row_start"_a, "row_index"_a,
      "tag_start"_a, "tag_index"_a, "order"_a, "present"_a, "absent"_a, "hinge"_a, "beta1"_a,
      "rho"_a, "most"_a, "sweeps"_a, "rescale"_a, "semantic"_a.noconvert(),
      "objective"_a.noconvert());

  module.def(
      "nearest",
      [](In<float, 2> closeness, In<std::int32_t, 1> tag_start, In<std::int32_t, 1> tag_index,
         std::int64_t t, std::int64_t most, In<std::int32_t, 1> own, Out<std::int32_t, 2> index,
         Out<float, 2> near, Out<std::int32_t, 1> count) {
        nb::gil_scoped_release release;
        prototag::nearest(closeness.data(), closeness.shape(0), closeness.shape(1),
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
      "gather",
      [](In<std::int32_t, 2> index, In<std::int32_t, 1> count, In<std::int32_t, 1> tag_start,
         In<std::int32_t, 1> tag_index, In<float, 2> value, Out<float, 2> out) {
        nb::gil_scoped_release release;
        prototag::gather(index.data(), count.data(), index.shape(0), index.shape(1),
                         {tag_start.data(), tag_index.data()}, value.shape(1), value.data(),
                         out.data());
      },
      "index"_a, "count"_a, "tag_start"_a, "tag_index"_a, "value"_a, "out"_a.noconvert());

  module.def(
      "minimise",
      [](In<double, 1> a, In<double, 1> score, In<bool, 1> y, double present, double absent,
         bool hinge, double start, double beta1, double rho, double anchor, double most) {
        return prototag::minimise(a.shape(0), a.data(), score.data(),
                                  reinterpret_cast<const char*>(y.data()),
                                  {present, absent, hinge}, start, beta1, rho, anchor, most);
      },
      "a"_a, "score"_a, "y"_a, "present"_a, "absent"_a, "hinge"_a, "start"_a, "beta1"_a, "rho"_a,
      "anchor"_a, "most"_a);
}
