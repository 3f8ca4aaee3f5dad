// cuDNN's convolutions: what is checked when they are called, and what they compute.
#include <cstring>

#include "cudnn_convolution_problem.h"
#include "library_rate.h"
#include "library_stream.h"
#include "refusal.h"

namespace simgpu {
namespace {

constexpr size_t kWorkspaceAlignment = 16;

/// Of y = act(alpha1 * convolution + alpha2 * z + bias).
struct Epilogue {
  TensorDescription z, bias;
  const void *z_data, *bias_data;
  double alpha2;
  bool relu, propagates_nan;
};

struct Convolution {
  ConvolutionProblem p;
  int algorithm;
  double alpha, beta;
  const void* inputs[2];  // forward x, w; backward data w, dy; backward filter x, dy
  void *result, *workspace;
  std::optional<Epilogue> epilogue;

  const TensorDescription& input_description(int index) const {
    const bool first = index == 0;
    switch (p.direction) {
      case Direction::forward: return first ? p.x : p.w.tensor;
      case Direction::backward_data: return first ? p.w.tensor : p.y;
      case Direction::backward_filter: break;
    }
    return first ? p.x : p.y;
  }
  const TensorDescription& result_description() const {
    return p.direction == Direction::forward ? p.y : p.direction == Direction::backward_data ? p.x : p.w.tensor;
  }
};

template <class C>
std::vector<C> input(const Convolution& x, int index) {
  std::vector<C> values = load<C>(x.input_description(index), x.inputs[index]);
  if constexpr (sizeof(C) == 4) {
    if (x.p.tf32())
      for (C& v : values) v = to_tf32(v);
  }
  return values;
}

/// A convolution proper turns the filter around; a cross-correlation does not. [k,r,s,c]
template <class C>
std::vector<C> turned(const ConvolutionProblem& p, std::vector<C> w) {
  if (p.description.mode == CUDNN_CROSS_CORRELATION) return w;
  const int64_t taps = p.shape.r * p.shape.s, channels = p.shape.c / p.shape.groups;
  std::vector<C> result(w.size());
  for (int64_t k = 0; k < p.shape.k; ++k)
    for (int64_t t = 0; t < taps; ++t)
      std::copy_n(&w[size_t((k * taps + t) * channels)], channels,
                  &result[size_t((k * taps + taps - 1 - t) * channels)]);
  return result;
}

/// The sums before anything is scaled.
template <class C>
std::vector<C> convolve(const Convolution& x) {
  static size_t runs = 0;  // an algorithm that isn't deterministic adds in another order each time
  const size_t turn = is_deterministic(x.p.direction, x.algorithm) ? 0 : ++runs;
  switch (x.p.direction) {
    case Direction::forward: return convolve(x.p.shape, input<C>(x, 0), turned(x.p, input<C>(x, 1)));
    case Direction::backward_data:
      return convolve_backward_data(x.p.shape, turned(x.p, input<C>(x, 0)), input<C>(x, 1), turn);
    case Direction::backward_filter: break;
  }
  return turned(x.p, convolve_backward_filter(x.p.shape, input<C>(x, 0), input<C>(x, 1), turn));
}

template <class C>
void finish(const Epilogue& e, double alpha, int64_t channels, std::vector<C>& y) {
  const std::vector<C> bias = load<C>(e.bias, e.bias_data);
  const std::vector<C> z = e.alpha2 != 0 ? load<C>(e.z, e.z_data) : std::vector<C>();
  for (size_t i = 0; i < y.size(); ++i) {
    C v = C(alpha) * y[i];
    if (!z.empty()) v += C(e.alpha2) * z[i];
    v += bias[i % size_t(channels)];
    if (e.relu && !(v > 0)) v = v != v && e.propagates_nan ? v : C(0);
    y[i] = v;
  }
}

Step run(const Convolution& x) {
  with_compute_type(x.p.element(), [&](auto c) {
    auto result = convolve<decltype(c)>(x);
    if (x.epilogue) finish(*x.epilogue, x.alpha, x.p.shape.k, result);
    store(x.result_description(), x.result, result, x.epilogue ? 1 : x.alpha, x.epilogue ? 0 : x.beta);
  });
  if (const size_t bytes = workspace_bytes(x.p, x.algorithm)) std::memset(x.workspace, 0xff, bytes);  // NaN
  return Step::done;
}

cudnnStatus_t check_pointers(const char* function, const Convolution& x, size_t workspace_given) {
  for (const void* p : {x.inputs[0], x.inputs[1], static_cast<const void*>(x.result)}) {
    if (!p) return refuse(CUDNN_STATUS_BAD_PARAM, "%s: a pointer is null", function);
    if (reinterpret_cast<uintptr_t>(p) % bytes_of(x.p.element()))
      return refuse(CUDNN_STATUS_BAD_PARAM_MISALIGNED_POINTER, "%s: a tensor of %s at %p", function,
                    name_of(x.p.element()), p);
  }
  if (x.result == x.inputs[0] || x.result == x.inputs[1])
    return refuse(CUDNN_STATUS_BAD_PARAM, "%s: the result would take the place of an operand", function);
  const size_t wanted = workspace_bytes(x.p, x.algorithm);
  if (wanted && (!x.workspace || workspace_given < wanted))
    return refuse(CUDNN_STATUS_BAD_PARAM, "%s: a workspace of %zu bytes, algorithm %d wants %zu", function,
                  x.workspace ? workspace_given : 0, x.algorithm, wanted);
  if (wanted && reinterpret_cast<uintptr_t>(x.workspace) % kWorkspaceAlignment)
    return refuse(CUDNN_STATUS_BAD_PARAM_MISALIGNED_POINTER, "%s: the workspace at %p is not aligned to %zu bytes",
                  function, x.workspace, kWorkspaceAlignment);
  return CUDNN_STATUS_SUCCESS;
}

cudnnStatus_t submit_convolution(const char* function, const DnnHandle& h, const Convolution& x) {
  Stream* s = find_stream(function, h.device, h.stream);
  if (!s) return CUDNN_STATUS_EXECUTION_FAILED;
  Operation o{.name = function,
              .step = [x] { return run(x); },
              .flops = x.p.shape.flops(),
              .flops_per_s = peak_flops_per_s(x.p.element(), x.p.tf32())};
  const Footprint result = x.result_description().footprint(x.result);
  for (int i = 0; i < 2; ++i) {
    const Footprint f = x.input_description(i).footprint(x.inputs[i]);
    if (f.overlaps(result)) fail("%s: the result overlaps an operand", function);
    f.read_by(o);
  }
  if (x.epilogue) {
    const Footprint z = x.epilogue->z.footprint(x.epilogue->z_data);
    if (x.epilogue->z_data != x.result && z.overlaps(result))
      fail("%s: y overlaps z, and isn't in its place", function);
    const Footprint bias = x.epilogue->bias.footprint(x.epilogue->bias_data);
    if (bias.overlaps(result)) fail("%s: y overlaps the bias", function);
    if (x.epilogue->alpha2 != 0) z.read_by(o);
    bias.read_by(o);
  } else if (x.beta != 0) {
    result.read_by(o);
  }
  result.written_by(o);
  Footprint(x.workspace, workspace_bytes(x.p, x.algorithm)).written_by(o);
  submit(*s, std::move(o));
  return CUDNN_STATUS_SUCCESS;
}

struct Call {
  cudnnHandle_t handle;
  const void *alpha, *beta;
  cudnnTensorDescriptor_t x;
  cudnnFilterDescriptor_t w;
  cudnnConvolutionDescriptor_t convolution;
  cudnnTensorDescriptor_t y;
  int algorithm;
  const void *input, *other_input;
  void *result, *workspace;
  size_t workspace_bytes;
};

/// All but the stream and the epilogue; under the lock.
cudnnStatus_t describe_call(const char* function, Direction direction, const Call& c, Convolution* x) {
  if (!dnn_handles().find(c.handle, function) || !c.alpha || !c.beta)
    return refuse(CUDNN_STATUS_BAD_PARAM, "%s: no handle, alpha or beta", function);
  if (const auto status = describe_convolution(function, direction, c.x, c.w, c.convolution, c.y, &x->p)) return status;
  if (const auto status = check_algorithm(function, x->p, c.algorithm)) return status;
  x->algorithm = c.algorithm;
  x->alpha = scaling(c.alpha, x->p.element());
  x->beta = scaling(c.beta, x->p.element());
  x->inputs[0] = c.input;
  x->inputs[1] = c.other_input;
  x->result = c.result;
  x->workspace = c.workspace;
  return check_pointers(function, *x, c.workspace_bytes);
}

cudnnStatus_t convolve(const char* function, Direction direction, const Call& c) {
  std::lock_guard lock(runtime_mutex());
  Convolution x{};
  if (const auto status = describe_call(function, direction, c, &x)) return status;
  return submit_convolution(function, *dnn_handles().find(c.handle, function), x);
}

cudnnStatus_t describe_epilogue(const char* function, const Convolution& x, cudnnTensorDescriptor_t z,
                                const void* z_data, cudnnTensorDescriptor_t bias, const void* bias_data,
                                cudnnActivationDescriptor_t activation, Epilogue* e) {
  const auto* z_description = tensor_descriptions().find(z, function);
  const auto* bias_description = tensor_descriptions().find(bias, function);
  const auto* a = activation_descriptions().find(activation, function);
  if (!z_description || !bias_description || !a || !z_description->is_set || !bias_description->is_set || !a->is_set ||
      !z_data || !bias_data)
    return refuse(CUDNN_STATUS_BAD_PARAM, "%s: z, the bias or the activation is missing", function);
  const TensorDescription &y = x.p.y, &b = *bias_description;
  if (!z_description->same_sizes(y) || !z_description->same_strides(y) || z_description->element != y.element)
    return refuse(CUDNN_STATUS_BAD_PARAM, "%s: z is not like y", function);
  if (b.n != 1 || b.c != y.c || b.h != 1 || b.w != 1 || b.element != y.element)
    return refuse(CUDNN_STATUS_BAD_PARAM, "%s: the bias is %ld x %ld x %ld x %ld of %s, y has %ld channels of %s",
                  function, b.n, b.c, b.h, b.w, name_of(b.element), y.c, name_of(y.element));
  if (a->mode != CUDNN_ACTIVATION_RELU && a->mode != CUDNN_ACTIVATION_IDENTITY)
    return refuse(CUDNN_STATUS_NOT_SUPPORTED, "%s: activation %d; it is RELU or IDENTITY", function, int(a->mode));
  if (a->mode == CUDNN_ACTIVATION_IDENTITY && x.algorithm != CUDNN_CONVOLUTION_FWD_ALGO_IMPLICIT_PRECOMP_GEMM)
    return refuse(CUDNN_STATUS_NOT_SUPPORTED, "%s: IDENTITY is for the algorithm IMPLICIT_PRECOMP_GEMM", function);
  *e = {*z_description, b, z_data, bias_data, x.beta, a->mode == CUDNN_ACTIVATION_RELU, a->propagates_nan};
  return CUDNN_STATUS_SUCCESS;
}

}  // namespace
}  // namespace simgpu

using namespace simgpu;

extern "C" {

cudnnStatus_t cudnnConvolutionForward(cudnnHandle_t handle, const void* alpha,
                                      const cudnnTensorDescriptor_t x_description, const void* x,
                                      const cudnnFilterDescriptor_t w_description, const void* w,
                                      const cudnnConvolutionDescriptor_t convolution,
                                      cudnnConvolutionFwdAlgo_t algorithm, void* workspace, size_t workspace_bytes,
                                      const void* beta, const cudnnTensorDescriptor_t y_description, void* y) {
  return convolve(__func__, Direction::forward,
                  {handle, alpha, beta, x_description, w_description, convolution, y_description, algorithm, x, w, y,
                   workspace, workspace_bytes});
}

cudnnStatus_t cudnnConvolutionBackwardData(cudnnHandle_t handle, const void* alpha,
                                           const cudnnFilterDescriptor_t w_description, const void* w,
                                           const cudnnTensorDescriptor_t dy_description, const void* dy,
                                           const cudnnConvolutionDescriptor_t convolution,
                                           cudnnConvolutionBwdDataAlgo_t algorithm, void* workspace,
                                           size_t workspace_bytes, const void* beta,
                                           const cudnnTensorDescriptor_t dx_description, void* dx) {
  return convolve(__func__, Direction::backward_data,
                  {handle, alpha, beta, dx_description, w_description, convolution, dy_description, algorithm, w, dy,
                   dx, workspace, workspace_bytes});
}

cudnnStatus_t cudnnConvolutionBackwardFilter(cudnnHandle_t handle, const void* alpha,
                                             const cudnnTensorDescriptor_t x_description, const void* x,
                                             const cudnnTensorDescriptor_t dy_description, const void* dy,
                                             const cudnnConvolutionDescriptor_t convolution,
                                             cudnnConvolutionBwdFilterAlgo_t algorithm, void* workspace,
                                             size_t workspace_bytes, const void* beta,
                                             const cudnnFilterDescriptor_t dw_description, void* dw) {
  return convolve(__func__, Direction::backward_filter,
                  {handle, alpha, beta, x_description, dw_description, convolution, dy_description, algorithm, x, dy,
                   dw, workspace, workspace_bytes});
}

cudnnStatus_t cudnnConvolutionBiasActivationForward(
    cudnnHandle_t handle, const void* alpha1, const cudnnTensorDescriptor_t x_description, const void* x,
    const cudnnFilterDescriptor_t w_description, const void* w, const cudnnConvolutionDescriptor_t convolution,
    cudnnConvolutionFwdAlgo_t algorithm, void* workspace, size_t workspace_bytes, const void* alpha2,
    const cudnnTensorDescriptor_t z_description, const void* z, const cudnnTensorDescriptor_t bias_description,
    const void* bias, const cudnnActivationDescriptor_t activation, const cudnnTensorDescriptor_t y_description,
    void* y) {
  std::lock_guard lock(runtime_mutex());
  Convolution c{};
  if (const auto status = describe_call(__func__, Direction::forward,
                                        {handle, alpha1, alpha2, x_description, w_description, convolution,
                                         y_description, algorithm, x, w, y, workspace, workspace_bytes},
                                        &c))
    return status;
  c.epilogue.emplace();
  if (const auto status =
          describe_epilogue(__func__, c, z_description, z, bias_description, bias, activation, &*c.epilogue))
    return status;
  return submit_convolution(__func__, *dnn_handles().find(handle, __func__), c);
}

}  // extern "C"
