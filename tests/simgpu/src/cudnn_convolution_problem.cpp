#include "cudnn_convolution_problem.h"

#include "library_rate.h"
#include "refusal.h"

namespace simgpu {
namespace {

size_t rounded_up(size_t bytes) { return (bytes + 255) / 256 * 256; }

cudnnStatus_t check_types(const char* function, const ConvolutionProblem& p) {
  const Element e = p.x.element;
  const cudnnDataType_t compute = e == Element::f64 ? CUDNN_DATA_DOUBLE : CUDNN_DATA_FLOAT;
  if (p.w.tensor.element != e || p.y.element != e || p.description.compute_type != compute)
    return refuse(CUDNN_STATUS_NOT_SUPPORTED,
                  "%s: tensors of %s and %s, a filter of %s and compute type %d; modelled is one type, f16 and bf16 "
                  "computed in float",
                  function, name_of(e), name_of(p.y.element), name_of(p.w.tensor.element),
                  int(p.description.compute_type));
  if (e == Element::f32 && p.description.math_type == CUDNN_TENSOR_OP_MATH_ALLOW_CONVERSION)
    return refuse(CUDNN_STATUS_NOT_SUPPORTED, "%s: float32 computed in f16, by the math type, is not modelled",
                  function);
  return CUDNN_STATUS_SUCCESS;
}

enum class Method { none, implicit_gemm, precomputed_gemm, gemm };

Method method(Direction direction, int algorithm) {
  switch (direction) {
    case Direction::forward:
      if (algorithm == CUDNN_CONVOLUTION_FWD_ALGO_IMPLICIT_GEMM) return Method::implicit_gemm;
      if (algorithm == CUDNN_CONVOLUTION_FWD_ALGO_IMPLICIT_PRECOMP_GEMM) return Method::precomputed_gemm;
      if (algorithm == CUDNN_CONVOLUTION_FWD_ALGO_GEMM) return Method::gemm;
      return Method::none;
    case Direction::backward_data:
      if (algorithm == CUDNN_CONVOLUTION_BWD_DATA_ALGO_0) return Method::implicit_gemm;
      if (algorithm == CUDNN_CONVOLUTION_BWD_DATA_ALGO_1) return Method::precomputed_gemm;
      return Method::none;
    case Direction::backward_filter: break;
  }
  if (algorithm == CUDNN_CONVOLUTION_BWD_FILTER_ALGO_0) return Method::implicit_gemm;
  if (algorithm == CUDNN_CONVOLUTION_BWD_FILTER_ALGO_1) return Method::precomputed_gemm;
  if (algorithm == CUDNN_CONVOLUTION_BWD_FILTER_ALGO_3) return Method::gemm;
  return Method::none;
}

}  // namespace

cudnnStatus_t describe_shape(const char* function, cudnnTensorDescriptor_t x_descriptor,
                             cudnnFilterDescriptor_t w_descriptor, cudnnConvolutionDescriptor_t convolution,
                             ConvolutionShape* shape) {
  const auto* x = tensor_descriptions().find(x_descriptor, function);
  const auto* w = filter_descriptions().find(w_descriptor, function);
  const auto* c = convolution_descriptions().find(convolution, function);
  if (!x || !w || !c || !x->is_set || !w->tensor.is_set || !c->is_set)
    return refuse(CUDNN_STATUS_BAD_PARAM, "%s: a descriptor is missing, or was not set", function);
  const TensorDescription& f = w->tensor;
  if (x->c != f.c * c->groups || f.n % c->groups)
    return refuse(CUDNN_STATUS_BAD_PARAM, "%s: %ld channels, and %ld filters of %ld channels in %ld groups", function,
                  x->c, f.n, f.c, c->groups);
  const auto size = [](int64_t n, int64_t pad, int64_t window, int64_t dilation, int64_t stride) {
    const int64_t last = n + 2 * pad - ((window - 1) * dilation + 1);
    return last < 0 ? 0 : last / stride + 1;
  };
  *shape = {.n = x->n,
            .c = x->c,
            .h = x->h,
            .w = x->w,
            .k = f.n,
            .r = f.h,
            .s = f.w,
            .p = size(x->h, c->pad_h, f.h, c->dilation_h, c->stride_h),
            .q = size(x->w, c->pad_w, f.w, c->dilation_w, c->stride_w),
            .pad_h = c->pad_h,
            .pad_w = c->pad_w,
            .stride_h = c->stride_h,
            .stride_w = c->stride_w,
            .dilation_h = c->dilation_h,
            .dilation_w = c->dilation_w,
            .groups = c->groups};
  if (shape->p == 0 || shape->q == 0)
    return refuse(CUDNN_STATUS_BAD_PARAM, "%s: the filter of %ld x %ld is larger than the padded image", function, f.h,
                  f.w);
  return CUDNN_STATUS_SUCCESS;
}

cudnnStatus_t describe_convolution(const char* function, Direction direction, cudnnTensorDescriptor_t x,
                                   cudnnFilterDescriptor_t w, cudnnConvolutionDescriptor_t convolution,
                                   cudnnTensorDescriptor_t y, ConvolutionProblem* problem) {
  ConvolutionProblem& p = *problem;
  if (const auto status = describe_shape(function, x, w, convolution, &p.shape)) return status;
  const auto* y_description = tensor_descriptions().find(y, function);
  if (!y_description || !y_description->is_set)
    return refuse(CUDNN_STATUS_BAD_PARAM, "%s: a descriptor is missing, or was not set", function);
  p.direction = direction;
  p.x = *tensor_descriptions().find(x, function);
  p.w = *filter_descriptions().find(w, function);
  p.description = *convolution_descriptions().find(convolution, function);
  p.y = *y_description;
  const ConvolutionShape& s = p.shape;
  if (p.y.n != s.n || p.y.c != s.k || p.y.h != s.p || p.y.w != s.q)
    return refuse(CUDNN_STATUS_BAD_PARAM, "%s: y is %ld x %ld x %ld x %ld, the convolution gives %ld x %ld x %ld x %ld",
                  function, p.y.n, p.y.c, p.y.h, p.y.w, s.n, s.k, s.p, s.q);
  const TensorDescription& result = direction == Direction::backward_data ? p.x : p.y;
  if (direction != Direction::backward_filter && result.footprint(nullptr).overlaps_itself())
    return refuse(CUDNN_STATUS_BAD_PARAM, "%s: elements of the result share their place", function);
  return check_types(function, p);
}

cudnnStatus_t check_algorithm(const char* function, const ConvolutionProblem& p, int algorithm) {
  if (algorithm < 0 || algorithm >= algorithm_count(p.direction))
    return refuse(CUDNN_STATUS_BAD_PARAM, "%s: algorithm %d", function, algorithm);
  const auto refused = [&](const char* why) {
    return refuse(CUDNN_STATUS_NOT_SUPPORTED, "%s: algorithm %d %s", function, algorithm, why);
  };
  const Method m = method(p.direction, algorithm);
  if (m == Method::none) return refused("is not modelled");
  if (m != Method::implicit_gemm && (p.description.dilation_h != 1 || p.description.dilation_w != 1))
    return refused("takes no dilation");
  if (p.w.format == CUDNN_TENSOR_NHWC) {
    if (m == Method::gemm) return refused("takes no filters in NHWC");
    if (p.element() == Element::f64) return refused("takes no filters of doubles in NHWC");
    if (!p.x.is_hwc_packed() || !p.y.is_hwc_packed())
      return refused("takes filters in NHWC with tensors in NHWC alone, without gaps in an image");
    return CUDNN_STATUS_SUCCESS;
  }
  const bool y_is_free = p.direction == Direction::forward;
  if (!y_is_free && !p.y.is_chw_packed()) return refused("takes dy in NCHW alone, without gaps in an image");
  if (p.direction == Direction::backward_filter && !p.x.is_chw_packed())
    return refused("takes x in NCHW alone, without gaps in an image");
  return CUDNN_STATUS_SUCCESS;
}

int algorithm_count(Direction direction) {
  switch (direction) {
    case Direction::forward: return CUDNN_CONVOLUTION_FWD_ALGO_COUNT;
    case Direction::backward_data: return CUDNN_CONVOLUTION_BWD_DATA_ALGO_COUNT;
    case Direction::backward_filter: break;
  }
  return CUDNN_CONVOLUTION_BWD_FILTER_ALGO_COUNT;
}

size_t workspace_bytes(const ConvolutionProblem& p, int algorithm) {
  const ConvolutionShape& s = p.shape;
  const size_t element = bytes_of(p.element());
  switch (method(p.direction, algorithm)) {
    case Method::precomputed_gemm: return rounded_up(4096 + size_t(s.w_elements()) * element);
    case Method::gemm: return rounded_up(size_t(s.p * s.q * s.r * s.s * s.c) * element);
    case Method::implicit_gemm:
    case Method::none: break;
  }
  return 0;
}

bool is_deterministic(Direction direction, int algorithm) {
  const Method m = method(direction, algorithm);
  return direction == Direction::forward || m == Method::precomputed_gemm;
}

float milliseconds(const ConvolutionProblem& p, int algorithm) {
  constexpr double kEfficiency = 0.5, kSlower[] = {1, 1.7, 1, 2.5};  // by method
  const double seconds = p.shape.flops() / (kEfficiency * peak_flops_per_s(p.element(), p.tf32()));
  return float(0.004 + 1e3 * seconds * kSlower[int(method(p.direction, algorithm))]);
}

}  // namespace simgpu
