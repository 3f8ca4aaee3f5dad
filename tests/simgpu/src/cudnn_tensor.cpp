// Tensor and filter descriptors, and their elements in memory.
#include <limits>

#include "cudnn_descriptors.h"
#include "refusal.h"

namespace simgpu {

Footprint TensorDescription::footprint(const void* data) const {
  return {data, bytes_of(element), {{n, n_stride}, {c, c_stride}, {h, h_stride}, {w, w_stride}}};
}

TensorDescription packed(cudnnTensorFormat_t format, Element e, int64_t n, int64_t c, int64_t h, int64_t w) {
  TensorDescription t{.is_set = true, .element = e, .n = n, .c = c, .h = h, .w = w};
  t.n_stride = c * h * w;
  const bool last = format == CUDNN_TENSOR_NHWC;
  t.c_stride = last ? 1 : h * w;
  t.h_stride = last ? w * c : w;
  t.w_stride = last ? c : 1;
  return t;
}

std::optional<Element> element_of(cudnnDataType_t type) {
  switch (type) {
    case CUDNN_DATA_FLOAT: return Element::f32;
    case CUDNN_DATA_DOUBLE: return Element::f64;
    case CUDNN_DATA_HALF: return Element::f16;
    case CUDNN_DATA_BFLOAT16: return Element::bf16;
    default: return std::nullopt;
  }
}

namespace {

// f(offset of the first channel, its place in [n,h,w,c]) for each pixel.
template <class F>
void for_each_pixel(const TensorDescription& t, F&& f) {
  int64_t at = 0;
  for (int64_t n = 0; n < t.n; ++n)
    for (int64_t h = 0; h < t.h; ++h)
      for (int64_t w = 0; w < t.w; ++w, at += t.c) f(n * t.n_stride + h * t.h_stride + w * t.w_stride, at);
}

}  // namespace

template <class C>
std::vector<C> load(const TensorDescription& t, const void* data) {
  std::vector<C> result(size_t(t.elements()));
  with_element(t.element, [&](auto e) {
    using T = decltype(e);
    const auto* from = static_cast<const T*>(data);
    for_each_pixel(t, [&](int64_t offset, int64_t at) {
      if (t.c_stride == 1)
        for (int64_t c = 0; c < t.c; ++c) result[size_t(at + c)] = C(value(from[offset + c]));
      else
        for (int64_t c = 0; c < t.c; ++c) result[size_t(at + c)] = C(value(from[offset + c * t.c_stride]));
    });
  });
  return result;
}

template <class C>
void store(const TensorDescription& t, void* data, const std::vector<C>& result, double alpha, double beta) {
  const C a = C(alpha), b = C(beta);
  with_element(t.element, [&](auto e) {
    using T = decltype(e);
    auto* to = static_cast<T*>(data);
    for_each_pixel(t, [&](int64_t offset, int64_t at) {
      for (int64_t c = 0; c < t.c; ++c) {
        T& x = to[offset + c * t.c_stride];
        C r = a * result[size_t(at + c)];
        if (beta != 0) r += b * C(value(x));
        x = rounded<T>(Compute<T>(r));
      }
    });
  });
}

template std::vector<float> load(const TensorDescription&, const void*);
template std::vector<double> load(const TensorDescription&, const void*);
template void store(const TensorDescription&, void*, const std::vector<float>&, double, double);
template void store(const TensorDescription&, void*, const std::vector<double>&, double, double);

namespace {

cudnnStatus_t check_sizes(const char* function, int64_t n, int64_t c, int64_t h, int64_t w) {
  if (n <= 0 || c <= 0 || h <= 0 || w <= 0)
    return refuse(CUDNN_STATUS_BAD_PARAM, "%s: sizes %ld, %ld, %ld and %ld", function, n, c, h, w);
  int64_t elements = 1;
  for (const int64_t size : {n, c, h, w})
    if (__builtin_mul_overflow(elements, size, &elements) || elements > std::numeric_limits<int32_t>::max())
      return refuse(CUDNN_STATUS_NOT_SUPPORTED, "%s: %ld x %ld x %ld x %ld elements, more than 2^31 - 1", function, n,
                    c, h, w);
  return CUDNN_STATUS_SUCCESS;
}

cudnnStatus_t check_type(const char* function, cudnnDataType_t type) {
  if (element_of(type)) return CUDNN_STATUS_SUCCESS;
  const bool known = type >= CUDNN_DATA_FLOAT && type <= CUDNN_DATA_COMPLEX_FP64;
  return refuse(known ? CUDNN_STATUS_NOT_SUPPORTED : CUDNN_STATUS_BAD_PARAM, "%s: data type %d is not modelled",
                function, int(type));
}

cudnnStatus_t check_format(const char* function, cudnnTensorFormat_t format) {
  if (format == CUDNN_TENSOR_NCHW || format == CUDNN_TENSOR_NHWC) return CUDNN_STATUS_SUCCESS;
  return refuse(CUDNN_STATUS_BAD_PARAM, "%s: tensor format %d; modelled are NCHW and NHWC", function, int(format));
}

template <class Objects, class Handle>
cudnnStatus_t create(Objects& all, const char* function, Handle* handle) {
  std::lock_guard lock(runtime_mutex());
  if (!handle) return refuse(CUDNN_STATUS_BAD_PARAM, "%s: nowhere to put the descriptor", function);
  *handle = all.add({});
  return CUDNN_STATUS_SUCCESS;
}

template <class Objects, class Handle>
cudnnStatus_t destroy(Objects& all, const char* function, Handle handle) {
  std::lock_guard lock(runtime_mutex());
  all.remove(handle, function);
  return CUDNN_STATUS_SUCCESS;
}

}  // namespace

LiveObjects<cudnnTensorDescriptor_t, TensorDescription>& tensor_descriptions() {
  static auto& all = *new LiveObjects<cudnnTensorDescriptor_t, TensorDescription>("tensor descriptor");
  return all;
}
LiveObjects<cudnnFilterDescriptor_t, FilterDescription>& filter_descriptions() {
  static auto& all = *new LiveObjects<cudnnFilterDescriptor_t, FilterDescription>("filter descriptor");
  return all;
}

}  // namespace simgpu

using namespace simgpu;

extern "C" {

cudnnStatus_t cudnnCreateTensorDescriptor(cudnnTensorDescriptor_t* d) {
  return create(tensor_descriptions(), __func__, d);
}
cudnnStatus_t cudnnDestroyTensorDescriptor(cudnnTensorDescriptor_t d) {
  return destroy(tensor_descriptions(), __func__, d);
}

cudnnStatus_t cudnnSetTensor4dDescriptor(cudnnTensorDescriptor_t d, cudnnTensorFormat_t format, cudnnDataType_t type,
                                         int n, int c, int h, int w) {
  std::lock_guard lock(runtime_mutex());
  TensorDescription* t = tensor_descriptions().find(d, __func__);
  if (!t) return refuse(CUDNN_STATUS_BAD_PARAM, "%s: no descriptor", __func__);
  if (const auto status = check_format(__func__, format)) return status;
  if (const auto status = check_type(__func__, type)) return status;
  if (const auto status = check_sizes(__func__, n, c, h, w)) return status;
  *t = packed(format, *element_of(type), n, c, h, w);
  return CUDNN_STATUS_SUCCESS;
}

cudnnStatus_t cudnnSetTensor4dDescriptorEx(cudnnTensorDescriptor_t d, cudnnDataType_t type, int n, int c, int h, int w,
                                           int n_stride, int c_stride, int h_stride, int w_stride) {
  std::lock_guard lock(runtime_mutex());
  TensorDescription* t = tensor_descriptions().find(d, __func__);
  if (!t) return refuse(CUDNN_STATUS_BAD_PARAM, "%s: no descriptor", __func__);
  if (const auto status = check_type(__func__, type)) return status;
  if (const auto status = check_sizes(__func__, n, c, h, w)) return status;
  if (n_stride <= 0 || c_stride <= 0 || h_stride <= 0 || w_stride <= 0)
    return refuse(CUDNN_STATUS_BAD_PARAM, "%s: strides %d, %d, %d and %d; those below 1 are not modelled", __func__,
                  n_stride, c_stride, h_stride, w_stride);
  *t = {.is_set = true,
        .element = *element_of(type),
        .n = n,
        .c = c,
        .h = h,
        .w = w,
        .n_stride = n_stride,
        .c_stride = c_stride,
        .h_stride = h_stride,
        .w_stride = w_stride};
  return CUDNN_STATUS_SUCCESS;
}

cudnnStatus_t cudnnGetTensor4dDescriptor(const cudnnTensorDescriptor_t d, cudnnDataType_t* type, int* n, int* c, int* h,
                                         int* w, int* n_stride, int* c_stride, int* h_stride, int* w_stride) {
  std::lock_guard lock(runtime_mutex());
  const TensorDescription* t = tensor_descriptions().find(d, __func__);
  if (!t || !t->is_set || !type || !n || !c || !h || !w || !n_stride || !c_stride || !h_stride || !w_stride)
    return refuse(CUDNN_STATUS_BAD_PARAM, "%s: no descriptor that was set, or no place for a value", __func__);
  constexpr cudnnDataType_t types[] = {CUDNN_DATA_FLOAT, CUDNN_DATA_DOUBLE, CUDNN_DATA_HALF, CUDNN_DATA_BFLOAT16};
  *type = types[int(t->element)];
  *n = int(t->n), *c = int(t->c), *h = int(t->h), *w = int(t->w);
  *n_stride = int(t->n_stride), *c_stride = int(t->c_stride), *h_stride = int(t->h_stride);
  *w_stride = int(t->w_stride);
  return CUDNN_STATUS_SUCCESS;
}

cudnnStatus_t cudnnGetTensorSizeInBytes(const cudnnTensorDescriptor_t d, size_t* bytes) {
  std::lock_guard lock(runtime_mutex());
  const TensorDescription* t = tensor_descriptions().find(d, __func__);
  if (!t || !t->is_set || !bytes)
    return refuse(CUDNN_STATUS_BAD_PARAM, "%s: no descriptor that was set, or no place for the size", __func__);
  *bytes = size_t((t->n - 1) * t->n_stride + (t->c - 1) * t->c_stride + (t->h - 1) * t->h_stride +
                  (t->w - 1) * t->w_stride + 1) *
           bytes_of(t->element);
  return CUDNN_STATUS_SUCCESS;
}

cudnnStatus_t cudnnCreateFilterDescriptor(cudnnFilterDescriptor_t* d) {
  return create(filter_descriptions(), __func__, d);
}
cudnnStatus_t cudnnDestroyFilterDescriptor(cudnnFilterDescriptor_t d) {
  return destroy(filter_descriptions(), __func__, d);
}

cudnnStatus_t cudnnSetFilter4dDescriptor(cudnnFilterDescriptor_t d, cudnnDataType_t type, cudnnTensorFormat_t format,
                                         int k, int c, int h, int w) {
  std::lock_guard lock(runtime_mutex());
  FilterDescription* f = filter_descriptions().find(d, __func__);
  if (!f) return refuse(CUDNN_STATUS_BAD_PARAM, "%s: no descriptor", __func__);
  if (const auto status = check_format(__func__, format)) return status;
  if (const auto status = check_type(__func__, type)) return status;
  if (const auto status = check_sizes(__func__, k, c, h, w)) return status;
  *f = {.format = format, .tensor = packed(format, *element_of(type), k, c, h, w)};
  return CUDNN_STATUS_SUCCESS;
}

}  // extern "C"
