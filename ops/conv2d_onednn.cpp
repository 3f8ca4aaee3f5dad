#ifdef TANDEM_ONEDNN
#  include <tandem/core/copy.h>
#  include <tandem/core/parallel_for.h>
#  include <tandem/ops/conv2d_kernels.h>
#  include <tandem/ops/onednn.h>

#  include <dnnl.hpp>

#  include <optional>

namespace tandem::detail {
namespace {

using dnnl::convolution_backward_data;
using dnnl::convolution_backward_weights;
using dnnl::convolution_forward;
using dnnl::memory;
constexpr auto kDirect = dnnl::algorithm::convolution_direct;
constexpr auto kTraining = dnnl::prop_kind::forward_training;

// What the library is told of a convolution.
struct Description {
  memory::desc x, y, b;
  memory::desc plain_w;  // as the tensor lies
  memory::desc any_w;    // in whatever order the library likes best
  memory::dims stride, dilation, padding;

  Description(const ConvShape& s, const Tensor& w, bool bias) {
    constexpr auto f32 = memory::data_type::f32;
    x = {{s.n, s.in, s.h, s.w}, f32, memory::format_tag::nhwc};
    y = {{s.n, s.out, s.ho, s.wo}, f32, memory::format_tag::nhwc};
    if (bias) b = {{s.out}, f32, memory::format_tag::x};
    const Dims& ws = w.strides();
    memory::dims sizes{s.out, s.group_in(), s.kh, s.kw}, strides{ws[0], ws[1], ws[2], ws[3]};
    if (s.o.groups > 1) {
      sizes[0] = s.group_out();
      sizes.insert(sizes.begin(), s.o.groups);
      strides.insert(strides.begin(), s.group_out() * ws[0]);
    }
    plain_w = {sizes, f32, strides};
    any_w = {sizes, f32, memory::format_tag::any};
    stride = {s.o.stride.h, s.o.stride.w};
    dilation = {s.o.dilation.h - 1, s.o.dilation.w - 1};
    padding = {s.o.padding.h, s.o.padding.w};
  }

#  if DNNL_VERSION_MAJOR >= 3
  convolution_forward::primitive_desc forward() const {
    return {onednn_engine(), kTraining,          kDirect, x, any_w, b, y, stride, dilation, padding,
            padding,         onednn_attributes()};
  }
  convolution_backward_data::primitive_desc backward_data() const {
    return {onednn_engine(), kDirect, x, any_w, y, stride, dilation, padding, padding, forward(), onednn_attributes()};
  }
  convolution_backward_weights::primitive_desc backward_weight() const {
    return {onednn_engine(), kDirect,  x,       any_w,   b,         y,
            stride,          dilation, padding, padding, forward(), onednn_attributes()};
  }
#  else
  convolution_forward::primitive_desc forward() const {
    return {
        {kTraining, kDirect, x, any_w, b, y, stride, dilation, padding, padding}, onednn_attributes(), onednn_engine()};
  }
  convolution_backward_data::primitive_desc backward_data() const {
    return {
        {kDirect, x, any_w, y, stride, dilation, padding, padding}, onednn_attributes(), onednn_engine(), forward()};
  }
  convolution_backward_weights::primitive_desc backward_weight() const {
    return {
        {kDirect, x, any_w, b, y, stride, dilation, padding, padding}, onednn_attributes(), onednn_engine(), forward()};
  }
#  endif
};

memory unbound(const memory::desc& d) { return memory(d, onednn_engine(), nullptr); }

// Weights on their way between the tensor's order and the library's.
class Reordering {
 public:
  Reordering(const memory::desc& from, const memory::desc& to, bool add = false)
      : from_(unbound(from)), to_(unbound(to)) {
    dnnl::reorder::primitive_desc pd(onednn_engine(), from, onednn_engine(), to, onednn_attributes(add));
    scratch_ = unbound(pd.scratchpad_desc());
    reorder_ = dnnl::reorder(pd);
    arguments_ = {{DNNL_ARG_FROM, from_}, {DNNL_ARG_TO, to_}, {DNNL_ARG_SCRATCHPAD, scratch_}};
  }
  void run(const void* from, void* to, Device d) {
    lend(from_, from);
    lend(to_, to);
    LentScratch scratch(scratch_, d);
    reorder_.execute(onednn_stream(), arguments_);
  }

 private:
  memory from_, to_, scratch_;
  dnnl::reorder reorder_;
  std::unordered_map<int, memory> arguments_;
};

// A convolution primitive whose weights (or their gradient) are argument `weights`.
class Convolution {
 public:
  template <class Primitive, class PrimitiveDesc>
  Convolution(Primitive primitive, const PrimitiveDesc& pd, int weights, const memory::desc& weights_desc,
              std::initializer_list<std::pair<int, memory::desc>> others)
      : primitive_(std::move(primitive)), weights_(unbound(weights_desc)), scratch_(unbound(pd.scratchpad_desc())) {
    arguments_ = {{weights, weights_}, {DNNL_ARG_SCRATCHPAD, scratch_}};
    for (auto& [argument, desc] : others)
      if (!desc.is_zero()) arguments_.emplace(argument, unbound(desc));
  }
  void bind(int argument, const void* p) { lend(arguments_.at(argument), p); }
  memory& weights() { return weights_; }
  void run(Device d) {
    LentScratch scratch(scratch_, d);
    primitive_.execute(onednn_stream(), arguments_);
    onednn_stream().wait();
  }

 private:
  dnnl::primitive primitive_;
  memory weights_, scratch_;
  std::unordered_map<int, memory> arguments_;
};

// A convolution that reads weights: forward, or the gradient by data.
struct ReadingPlan {
  Convolution convolution;
  std::optional<Reordering> reorder;  // none where the tensor's order is the library's
  ReadingPlan(Convolution c, const memory::desc& plain) : convolution(std::move(c)) {
    memory::desc best = convolution.weights().get_desc();
    if (best != plain) reorder.emplace(plain, best);
  }
  void run(const Tensor& w) {
    if (!reorder) {
      lend(convolution.weights(), w.raw());
      return convolution.run(w.device());
    }
    LentScratch ordered(convolution.weights(), w.device());
    reorder->run(w.raw(), convolution.weights().get_data_handle(), w.device());
    convolution.run(w.device());
  }
};

// The gradient by weight: written in the library's order, then put (or added) into the tensor's.
struct WritingPlan {
  Convolution convolution;
  std::optional<Reordering> reorder;
  WritingPlan(Convolution c, const memory::desc& plain, bool add) : convolution(std::move(c)) {
    memory::desc best = convolution.weights().get_desc();
    if (add || best != plain) reorder.emplace(best, plain, add);
  }
  void run(const Tensor& gw) {
    if (!reorder) {
      lend(convolution.weights(), gw.raw());
      return convolution.run(gw.device());
    }
    LentScratch ordered(convolution.weights(), gw.device());
    convolution.run(gw.device());
    reorder->run(convolution.weights().get_data_handle(), gw.raw(), gw.device());
    onednn_stream().wait();
  }
};

using Key = std::array<int64_t, 18>;
Key key_of(const ConvShape& s, const Tensor& w, int64_t variant) {
  return {s.n,
          s.in,
          s.h,
          s.w,
          s.out,
          s.kh,
          s.kw,
          s.o.stride.h,
          s.o.stride.w,
          s.o.padding.h,
          s.o.padding.w,
          s.o.dilation.h,
          s.o.dilation.w,
          s.o.groups,
          w.strides()[0],
          w.strides()[1],
          variant,
          num_threads()};
}

}  // namespace

void conv2d_forward_onednn(Tensor& y, const Tensor& x, const Tensor& w, const Tensor& b, const Conv2dOptions& o) {
  static thread_local PlanCache<ReadingPlan, 18> plans;
  with_onednn_errors([&] {
    const ConvShape s(x, w, y, o);
    ReadingPlan& plan = plans.get(key_of(s, w, b.defined()), [&] {
      const Description d(s, w, b.defined());
      auto pd = d.forward();
      return ReadingPlan({convolution_forward(pd),
                          pd,
                          DNNL_ARG_WEIGHTS,
                          pd.weights_desc(),
                          {{DNNL_ARG_SRC, d.x}, {DNNL_ARG_BIAS, d.b}, {DNNL_ARG_DST, d.y}}},
                         d.plain_w);
    });
    plan.convolution.bind(DNNL_ARG_SRC, x.raw());
    if (b) plan.convolution.bind(DNNL_ARG_BIAS, b.raw());
    plan.convolution.bind(DNNL_ARG_DST, y.raw());
    plan.run(w);
  });
}

void conv2d_backward_data_onednn(const Out& gx, const Tensor& gy, const Tensor& w, const Conv2dOptions& o) {
  static thread_local PlanCache<ReadingPlan, 18> plans;
  Tensor to = gx.beta == 0 ? gx.t : empty_like(gx.t);  // the primitive can't add
  with_onednn_errors([&] {
    const ConvShape s(gx.t, w, gy, o);
    ReadingPlan& plan = plans.get(key_of(s, w, 0), [&] {
      const Description d(s, w, false);
      auto pd = d.backward_data();
      return ReadingPlan({convolution_backward_data(pd),
                          pd,
                          DNNL_ARG_WEIGHTS,
                          pd.weights_desc(),
                          {{DNNL_ARG_DIFF_DST, d.y}, {DNNL_ARG_DIFF_SRC, d.x}}},
                         d.plain_w);
    });
    plan.convolution.bind(DNNL_ARG_DIFF_DST, gy.raw());
    plan.convolution.bind(DNNL_ARG_DIFF_SRC, to.raw());
    plan.run(w);
  });
  if (gx.beta != 0) copy_into(gx, to);
}

void conv2d_backward_weight_onednn(const Out& gw, const Out& gb, const Tensor& gy, const Tensor& x,
                                   const Conv2dOptions& o) {
  static thread_local PlanCache<WritingPlan, 18> plans;
  const bool add = gw.beta != 0, bias = gb.t.defined();
  Tensor bias_to = bias && gb.beta != 0 ? empty_like(gb.t) : gb.t;
  with_onednn_errors([&] {
    const ConvShape s(x, gw.t, gy, o);
    WritingPlan& plan = plans.get(key_of(s, gw.t, 2 * add + bias), [&] {
      const Description d(s, gw.t, bias);
      auto pd = d.backward_weight();
      return WritingPlan({convolution_backward_weights(pd),
                          pd,
                          DNNL_ARG_DIFF_WEIGHTS,
                          pd.diff_weights_desc(),
                          {{DNNL_ARG_DIFF_DST, d.y}, {DNNL_ARG_SRC, d.x}, {DNNL_ARG_DIFF_BIAS, d.b}}},
                         d.plain_w, add);
    });
    plan.convolution.bind(DNNL_ARG_DIFF_DST, gy.raw());
    plan.convolution.bind(DNNL_ARG_SRC, x.raw());
    if (bias) plan.convolution.bind(DNNL_ARG_DIFF_BIAS, bias_to.raw());
    plan.run(gw.t);
  });
  if (bias && gb.beta != 0) copy_into(gb, bias_to);
}

}  // namespace tandem::detail
#endif
