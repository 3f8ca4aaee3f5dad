// The calls of cuDNN's older kind alone: descriptors, an algorithm, one call. Channels-last wherever the library has
// kernels for it; it has none for f64, and what it has none for is computed row-major, on copies.
#include <tandem/cuda/cudnn.h>
#include <tandem/cuda/handle.h>
#include <tandem/cuda/runtime.h>
#include <tandem/cuda/spread_bias.h>
#include <tandem/ops/conv2d_kernels.h>
#include <tandem/ops/plan_cache.h>

#include <cudnn.h>

#include <algorithm>
#include <bit>
#include <memory>
#include <mutex>
#include <span>
#include <vector>

namespace tandem::cuda_impl {
namespace {

constexpr size_t kWorkspaceBytes = 256 << 20;  // at most
constexpr size_t kAlignment = 16;              // bytes; kernels with vector accesses take it for granted

enum class Direction { forward, forward_with_bias, backward_data, backward_weight };

// What is asked for.
struct Problem {
  Direction direction;
  Dtype dtype;
  detail::ConvShape s;
  bool deterministic = context().deterministic;
  bool tf32 = dtype == Dtype::f32 && context().tf32_convolution;
  bool timed = context().benchmark;

  Problem(Direction d, const Tensor& x, const Tensor& w, const Tensor& y, const Conv2dOptions& o)
      : direction(d), dtype(x.dtype()), s(x, w, y, o) {}
  using Sizes = std::array<int64_t, sizeof(detail::ConvShape) / sizeof(int64_t)>;  // which holds nothing else
  using Key = std::array<int64_t, std::tuple_size_v<Sizes> + 1>;
  Key key() const {
    Key key{int64_t(direction) << 16 | int64_t(dtype) << 8 | timed << 2 | tf32 << 1 | deterministic};
    std::ranges::copy(std::bit_cast<Sizes>(s), key.begin() + 1);
    return key;
  }
  std::string describe() const {
    auto pair = [](Pair p) { return message(p.h, 'x', p.w); };
    return message(dtype, " images [", s.n, ",", s.in, ",", s.h, ",", s.w, "], weight [", s.out, ",", s.group_in(), ",",
                   s.kh, ",", s.kw, "], stride ", pair(s.o.stride), ", padding ", pair(s.o.padding), ", dilation ",
                   pair(s.o.dilation), ", groups ", s.o.groups);
  }
};

[[noreturn]] void fail(cudnnStatus_t status, const char* expression, const Problem& p) {
  char last[512] = "";
  cudnnGetLastErrorString(last, sizeof last);
  const auto category = CUDNN_STATUS_CATEGORY(status);
  const bool late = category == CUDNN_STATUS_EXECUTION_FAILED || category == CUDNN_STATUS_INTERNAL_ERROR;
  fail(status == CUDNN_STATUS_INTERNAL_ERROR_DEVICE_ALLOCATION_FAILED ? Cause::no_memory
       : late                                                         ? Cause::any_kernel
                                                                      : Cause::this_call,
       message(cudnnGetErrorString(status), " from ", expression, " for ", p.describe(), *last ? "; cuDNN says: " : "",
               last));
}
bool refuses(cudnnStatus_t status) { return CUDNN_STATUS_CATEGORY(status) == CUDNN_STATUS_NOT_SUPPORTED; }
// TANDEM_CUDNN(problem, call): throws with the call's text where it fails.
#define TANDEM_CUDNN(p, expression)                                                             \
  do {                                                                                          \
    if (const cudnnStatus_t status = (expression); status != CUDNN_STATUS_SUCCESS) [[unlikely]] \
      fail(status, #expression, p);                                                             \
  } while (false)

// How the library sees a problem, and which of its algorithms is used.
struct Plan {
  Layout layout = Layout::channels_last;
  Handle<cudnnTensorDescriptor_t, cudnnDestroyTensorDescriptor> x, y, bias;
  Handle<cudnnFilterDescriptor_t, cudnnDestroyFilterDescriptor> w;
  Handle<cudnnConvolutionDescriptor_t, cudnnDestroyConvolutionDescriptor> convolution;
  Handle<cudnnActivationDescriptor_t, cudnnDestroyActivationDescriptor> no_activation;
  int algorithm = 0;
  size_t workspace = 0;
  bool adds_bias = false;  // in the call that convolves
  bool found = false;      // there is an algorithm at all
};

// Of one stream, because a handle has memory of its own on the device. Never destroyed: threads may still end when the
// driver is gone.
struct Dnn {
  const int device;
  const cudaStream_t stream;
  explicit Dnn(const On& on) : device(on.device().index), stream(on) {}

  std::mutex mutex;
  Handle<cudnnHandle_t, cudnnDestroy> handle;
  detail::PlanCache<Plan, std::tuple_size_v<Problem::Key>> plans;
};

Dnn& dnn_of(const On& on) {
  static auto& mutex = *new std::mutex;
  static auto& all = *new std::vector<std::unique_ptr<Dnn>>;
  std::lock_guard l(mutex);
  for (auto& d : all)
    if (d->device == on.device().index && d->stream == on) return *d;
  return *all.emplace_back(new Dnn(on));
}

// The three computations: how the library ranks its algorithms for a plan, how it tries them, and how it runs one. `a`
// and `b` stand for the operands in the library's order.
struct Forward {
  using Found = cudnnConvolutionFwdAlgoPerf_t;
  static cudnnStatus_t rank(cudnnHandle_t h, const Plan& p, int most, int* count, Found* found) {
    return cudnnGetConvolutionForwardAlgorithm_v7(h, p.x, p.w, p.convolution, p.y, most, count, found);
  }
  static cudnnStatus_t attempt(cudnnHandle_t h, const Plan& p, const void* x, const void* w, void* y, void* workspace,
                               size_t bytes, int most, int* count, Found* found) {
    return cudnnFindConvolutionForwardAlgorithmEx(h, p.x, x, p.w, w, p.convolution, p.y, y, most, count, found,
                                                  workspace, bytes);
  }
  static cudnnStatus_t run(cudnnHandle_t h, const Plan& p, const void* one, const void* x, const void* w,
                           void* workspace, const void* beta, void* y) {
    return cudnnConvolutionForward(h, one, p.x, x, p.w, w, p.convolution, cudnnConvolutionFwdAlgo_t(p.algorithm),
                                   workspace, p.workspace, beta, p.y, y);
  }
};
struct BackwardData {
  using Found = cudnnConvolutionBwdDataAlgoPerf_t;
  static cudnnStatus_t rank(cudnnHandle_t h, const Plan& p, int most, int* count, Found* found) {
    return cudnnGetConvolutionBackwardDataAlgorithm_v7(h, p.w, p.y, p.convolution, p.x, most, count, found);
  }
  static cudnnStatus_t attempt(cudnnHandle_t h, const Plan& p, const void* w, const void* gy, void* gx, void* workspace,
                               size_t bytes, int most, int* count, Found* found) {
    return cudnnFindConvolutionBackwardDataAlgorithmEx(h, p.w, w, p.y, gy, p.convolution, p.x, gx, most, count, found,
                                                       workspace, bytes);
  }
  static cudnnStatus_t run(cudnnHandle_t h, const Plan& p, const void* one, const void* w, const void* gy,
                           void* workspace, const void* beta, void* gx) {
    return cudnnConvolutionBackwardData(h, one, p.w, w, p.y, gy, p.convolution,
                                        cudnnConvolutionBwdDataAlgo_t(p.algorithm), workspace, p.workspace, beta, p.x,
                                        gx);
  }
};
struct BackwardWeight {
  using Found = cudnnConvolutionBwdFilterAlgoPerf_t;
  static cudnnStatus_t rank(cudnnHandle_t h, const Plan& p, int most, int* count, Found* found) {
    return cudnnGetConvolutionBackwardFilterAlgorithm_v7(h, p.x, p.y, p.convolution, p.w, most, count, found);
  }
  static cudnnStatus_t attempt(cudnnHandle_t h, const Plan& p, const void* x, const void* gy, void* gw, void* workspace,
                               size_t bytes, int most, int* count, Found* found) {
    return cudnnFindConvolutionBackwardFilterAlgorithmEx(h, p.x, x, p.y, gy, p.convolution, p.w, gw, most, count, found,
                                                         workspace, bytes);
  }
  static cudnnStatus_t run(cudnnHandle_t h, const Plan& p, const void* one, const void* x, const void* gy,
                           void* workspace, const void* beta, void* gw) {
    return cudnnConvolutionBackwardFilter(h, one, p.x, x, p.y, gy, p.convolution,
                                          cudnnConvolutionBwdFilterAlgo_t(p.algorithm), workspace, p.workspace, beta,
                                          p.w, gw);
  }
};

// -- plans ----------------------------------------------------------------------------------

cudnnDataType_t type_of(Dtype t) {
  switch (t) {
    case Dtype::f64: return CUDNN_DATA_DOUBLE;
    case Dtype::f16: return CUDNN_DATA_HALF;
    case Dtype::bf16: return CUDNN_DATA_BFLOAT16;
    default: return CUDNN_DATA_FLOAT;
  }
}

int narrow(int64_t size) {
  check<ShapeError>(size == int(size), "[", context().op, "] a size of ", size, ": cuDNN takes 32 bits");
  return int(size);
}

Plan describe(const Problem& p, Layout layout) {
  Plan plan;
  plan.layout = layout;
  const auto format = layout == Layout::channels_last ? CUDNN_TENSOR_NHWC : CUDNN_TENSOR_NCHW;
  const auto type = type_of(p.dtype);
  const detail::ConvShape& s = p.s;
  auto tensor = [&](auto& d, int64_t n, int64_t c, int64_t h, int64_t w) {
    TANDEM_CUDNN(p, cudnnCreateTensorDescriptor(d.out()));
    TANDEM_CUDNN(p, cudnnSetTensor4dDescriptor(d, format, type, narrow(n), narrow(c), narrow(h), narrow(w)));
  };
  tensor(plan.x, s.n, s.in, s.h, s.w);
  tensor(plan.y, s.n, s.out, s.ho, s.wo);
  TANDEM_CUDNN(p, cudnnCreateFilterDescriptor(plan.w.out()));
  TANDEM_CUDNN(p, cudnnSetFilter4dDescriptor(plan.w, type, format, narrow(s.out), narrow(s.group_in()), narrow(s.kh),
                                             narrow(s.kw)));
  TANDEM_CUDNN(p, cudnnCreateConvolutionDescriptor(plan.convolution.out()));
  TANDEM_CUDNN(p, cudnnSetConvolution2dDescriptor(plan.convolution, narrow(s.o.padding.h), narrow(s.o.padding.w),
                                                  narrow(s.o.stride.h), narrow(s.o.stride.w), narrow(s.o.dilation.h),
                                                  narrow(s.o.dilation.w), CUDNN_CROSS_CORRELATION,
                                                  p.dtype == Dtype::f64 ? CUDNN_DATA_DOUBLE : CUDNN_DATA_FLOAT));
  TANDEM_CUDNN(p, cudnnSetConvolutionGroupCount(plan.convolution, narrow(s.o.groups)));
  // DEFAULT allows f32 to be rounded to TF32; FMA does not.
  TANDEM_CUDNN(p, cudnnSetConvolutionMathType(plan.convolution, is_half(p.dtype) ? CUDNN_TENSOR_OP_MATH
                                                                : p.tf32         ? CUDNN_DEFAULT_MATH
                                                                                 : CUDNN_FMA_MATH));
  if (p.direction == Direction::forward_with_bias) {
    tensor(plan.bias, 1, s.out, 1, 1);
    TANDEM_CUDNN(p, cudnnCreateActivationDescriptor(plan.no_activation.out()));
    TANDEM_CUDNN(
        p, cudnnSetActivationDescriptor(plan.no_activation, CUDNN_ACTIVATION_IDENTITY, CUDNN_NOT_PROPAGATE_NAN, 0));
  }
  return plan;
}

struct Candidate {
  int algorithm;
  size_t workspace;
  cudnnMathType_t math;
};

Tensor bytes(size_t n, Device d) { return empty({int64_t(n)}, {.dtype = Dtype::u8, .device = d}); }

constexpr int kMostAlgorithms = 16;

// Those that may be used.
template <class Found>
std::vector<Candidate> usable(const Problem& p, std::span<const Found> found) {
  std::vector<Candidate> result;
  for (const Found& f : found)
    if (f.status == CUDNN_STATUS_SUCCESS && f.memory <= kWorkspaceBytes &&
        (!p.deterministic || f.determinism == CUDNN_DETERMINISTIC) &&
        (p.dtype != Dtype::f32 || p.tf32 || f.mathType == CUDNN_FMA_MATH))
      result.push_back({int(f.algo), f.memory, f.mathType});
  return result;
}

// Best first by the library's own rules.
template <class D>
std::vector<Candidate> ranked(Dnn& dnn, const Problem& p, const Plan& plan) {
  typename D::Found found[kMostAlgorithms];
  int count = 0;
  const cudnnStatus_t status = D::rank(dnn.handle, plan, kMostAlgorithms, &count, found);
  if (refuses(status)) return {};
  if (status != CUDNN_STATUS_SUCCESS) fail(status, "ranking its algorithms", p);
  return usable<typename D::Found>(p, {found, size_t(count)});
}

// Quickest first, tried on zeros.
template <class D>
std::vector<Candidate> timed(Dnn& dnn, const On& on, const Problem& p, const Plan& plan, size_t workspace_bytes) {
  const detail::ConvShape& s = p.s;
  auto operand = [&](int64_t elements) { return zeros({elements}, {.dtype = p.dtype, .device = on.device()}); };
  Tensor x = operand(s.n * s.in * s.h * s.w), y = operand(s.n * s.out * s.ho * s.wo);
  Tensor w = operand(s.out * s.group_in() * s.kh * s.kw), workspace = bytes(workspace_bytes, on.device());
  void *a = x.raw(), *b = y.raw(), *out = w.raw();  // of the weight's gradient
  if constexpr (std::is_same_v<D, Forward>) std::swap(b, out);
  if constexpr (std::is_same_v<D, BackwardData>) std::swap(a, out);
  typename D::Found found[kMostAlgorithms];
  int count = 0;
  TANDEM_CUDNN(
      p, D::attempt(dnn.handle, plan, a, b, out, workspace.raw(), workspace_bytes, kMostAlgorithms, &count, found));
  return usable<typename D::Found>(p, {found, size_t(count)});
}

void use(const Candidate& c, const Problem& p, Plan& plan) {
  plan.algorithm = c.algorithm;
  plan.workspace = c.workspace;
  plan.found = true;
  TANDEM_CUDNN(p, cudnnSetConvolutionMathType(plan.convolution, c.math));
}

template <class D>
void run(Dnn& dnn, const On& on, const Problem& p, const Plan& plan, const void* a, const void* b, float beta,
         void* out) {
  const float one = 1;
  const double one_f64 = 1, beta_f64 = beta;
  const bool f64 = p.dtype == Dtype::f64;
  const Tensor workspace = bytes(plan.workspace, on.device());
  TANDEM_CUDNN(p, D::run(dnn.handle, plan, f64 ? static_cast<const void*>(&one_f64) : &one, a, b, workspace.raw(),
                         f64 ? static_cast<const void*>(&beta_f64) : &beta, out));
  after_launch(on);
}

template <class D>
Plan make_plan(Dnn& dnn, const On& on, const Problem& p) {
  for (Layout layout : {Layout::channels_last, Layout::row_major}) {
    if (layout == Layout::channels_last && p.dtype == Dtype::f64) continue;
    Plan plan = describe(p, layout);
    std::vector<Candidate> from = ranked<D>(dnn, p, plan);
    if (from.empty()) continue;
    if (p.direction == Direction::forward_with_bias && layout == Layout::channels_last)
      for (const Candidate& c : from)
        if (c.algorithm == CUDNN_CONVOLUTION_FWD_ALGO_IMPLICIT_PRECOMP_GEMM) {  // the one that adds a bias by itself
          use(c, p, plan);
          plan.adds_bias = true;
          return plan;
        }
    if (p.timed && from.size() > 1 && !on.capturing()) {  // a step that is being captured was run before
      size_t workspace = 0;
      for (const Candidate& c : from) workspace = std::max(workspace, c.workspace);
      if (auto quickest = timed<D>(dnn, on, p, plan, workspace); !quickest.empty()) from = std::move(quickest);
    }
    use(from[0], p, plan);
    return plan;
  }
  const bool forward = std::is_same_v<D, Forward>;
  check<DeviceError>(p.deterministic && !forward, "[", context().op, "] cuDNN has no algorithm for ", p.describe());
  return {};
}

// -- operands -------------------------------------------------------------------------------

bool is_aligned(const Tensor& t) { return reinterpret_cast<uintptr_t>(t.raw()) % kAlignment == 0; }

// t as a plan takes it: dense in its layout, and aligned.
Tensor operand(const Tensor& t, Layout layout) {
  Tensor dense = as_layout(t, layout);
  return is_aligned(dense) ? dense : copy_of(dense, {.dtype = t.dtype(), .device = t.device(), .layout = layout});
}

template <class F>
void write_operand(const Out& o, Layout layout, F&& f) {
  if (o.t.is_contiguous(layout) && is_aligned(o.t)) return f(o);
  Tensor scratch = empty(o.t.shape(), {.dtype = o.t.dtype(), .device = o.t.device(), .layout = layout});
  f(Out{scratch, 0});
  copy_into(o, scratch);
}

// f(dnn, plan), with the plan for a problem; false where there is none.
template <class D, class F>
bool with_plan(const On& on, const Problem& p, F&& f) {
  Dnn& dnn = dnn_of(on);
  std::lock_guard l(dnn.mutex);
  if (!dnn.handle) {
    Handle<cudnnHandle_t, cudnnDestroy> made;
    TANDEM_CUDNN(p, cudnnCreate(made.out()));
    TANDEM_CUDNN(p, cudnnSetStream(made, on));
    dnn.handle = std::move(made);
  }
  Plan& plan = dnn.plans.get(p.key(), [&] { return make_plan<D>(dnn, on, p); });
  if (!plan.found) return false;
  f(dnn, plan);
  return true;
}

// The convolution and the bias in one call. False where the library refuses, as it may for some sizes.
bool forward_with_bias(Dnn& dnn, const On& on, const Problem& p, const Plan& plan, const Tensor& y, const Tensor& x,
                       const Tensor& w, const Tensor& b) {
  const float one = 1, zero = 0;
  const Tensor workspace = bytes(plan.workspace, on.device());
  const cudnnStatus_t status = cudnnConvolutionBiasActivationForward(
      dnn.handle, &one, plan.x, x.raw(), plan.w, w.raw(), plan.convolution, cudnnConvolutionFwdAlgo_t(plan.algorithm),
      workspace.raw(), plan.workspace, &zero, plan.y, y.raw(), plan.bias, b.raw(), plan.no_activation, plan.y, y.raw());
  if (refuses(status)) return false;
  if (status != CUDNN_STATUS_SUCCESS) fail(status, "cudnnConvolutionBiasActivationForward", p);
  after_launch(on);
  return true;
}

}  // namespace

void cudnn_convolution_forward(Tensor& y, const Tensor& x, const Tensor& w, const Tensor& b, const Conv2dOptions& o) {
  On on(y);
  const Problem p(b ? Direction::forward_with_bias : Direction::forward, x, w, y, o);
  with_plan<Forward>(on, p, [&](Dnn& dnn, Plan& plan) {
    const Tensor from = operand(x, plan.layout), weight = operand(w, plan.layout);
    write_operand({y, 0}, plan.layout, [&](Out to) {
      if (plan.adds_bias) {
        plan.adds_bias = forward_with_bias(dnn, on, p, plan, to.t, from, weight, operand(b, Layout::row_major));
        if (plan.adds_bias) return;
      }
      if (b) copy_into(to, spread_bias(b, to.t.shape(), 1));
      run<Forward>(dnn, on, p, plan, from.raw(), weight.raw(), b ? 1 : 0, to.t.raw());
    });
  });
}

bool cudnn_convolution_backward_data(const Out& gx, const Tensor& gy, const Tensor& w, const Conv2dOptions& o) {
  On on(gy);
  const Problem p(Direction::backward_data, gx.t, w, gy, o);
  return with_plan<BackwardData>(on, p, [&](Dnn& dnn, Plan& plan) {
    const Tensor from = operand(gy, plan.layout), weight = operand(w, plan.layout);
    write_operand(gx, plan.layout,
                  [&](Out to) { run<BackwardData>(dnn, on, p, plan, weight.raw(), from.raw(), to.beta, to.t.raw()); });
  });
}

bool cudnn_convolution_backward_weight(const Out& gw, const Tensor& gy, const Tensor& x, const Conv2dOptions& o) {
  On on(gy);
  const Problem p(Direction::backward_weight, x, gw.t, gy, o);
  return with_plan<BackwardWeight>(on, p, [&](Dnn& dnn, Plan& plan) {
    const Tensor from = operand(x, plan.layout), upstream = operand(gy, plan.layout);
    write_operand(gw, plan.layout, [&](Out to) {
      run<BackwardWeight>(dnn, on, p, plan, from.raw(), upstream.raw(), to.beta, to.t.raw());
    });
  });
}

}  // namespace tandem::cuda_impl
