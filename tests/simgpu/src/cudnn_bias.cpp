// cuDNN's sums with a tensor of fewer elements: a bias added, and its gradient.
#include "cudnn_operands.h"

using namespace simgpu;

extern "C" {

cudnnStatus_t cudnnAddTensor(cudnnHandle_t handle, const void* alpha, const cudnnTensorDescriptor_t a_descriptor,
                             const void* a, const void* beta, const cudnnTensorDescriptor_t c_descriptor, void* c) {
  std::lock_guard lock(runtime_mutex());
  const DnnHandle* h = dnn_handles().find(handle, __func__);
  if (!h || !alpha || !beta) return refuse(CUDNN_STATUS_BAD_PARAM, "%s: no handle, alpha or beta", __func__);
  const DnnOperand from{"A", tensor_descriptions().find(a_descriptor, __func__), a};
  const DnnOperand to{"C", tensor_descriptions().find(c_descriptor, __func__), c};
  if (const auto status = check_operands(__func__, {from, to})) return status;
  const TensorDescription &x = *from.description, &y = *to.description;
  const auto fits = [](int64_t part, int64_t whole) { return part == whole || part == 1; };
  if (!fits(x.n, y.n) || !fits(x.c, y.c) || !fits(x.h, y.h) || !fits(x.w, y.w) || x.element != y.element)
    return refuse(CUDNN_STATUS_BAD_PARAM, "%s: A is %ld x %ld x %ld x %ld of %s, C %ld x %ld x %ld x %ld of %s",
                  __func__, x.n, x.c, x.h, x.w, name_of(x.element), y.n, y.c, y.h, y.w, name_of(y.element));
  check_overlap(__func__, to, {from});
  const double by = scaling(alpha, y.element), keep = scaling(beta, y.element);
  Operation o{.name = __func__, .step = [=] {
                with_compute_type(y.element, [&](auto element) {
                  using C = decltype(element);
                  const std::vector<C> values = load<C>(x, a);
                  std::vector<C> spread(size_t(y.elements()));
                  size_t at = 0;
                  for (int64_t n = 0; n < y.n; ++n)
                    for (int64_t i = 0; i < y.h; ++i)
                      for (int64_t j = 0; j < y.w; ++j)
                        for (int64_t k = 0; k < y.c; ++k, ++at) {
                          const int64_t pixel = (std::min(n, x.n - 1) * x.h + std::min(i, x.h - 1)) * x.w;
                          spread[at] = values[size_t((pixel + std::min(j, x.w - 1)) * x.c + std::min(k, x.c - 1))];
                        }
                  store(y, c, spread, by, keep);
                });
                return Step::done;
              }};
  reads(o, {from});
  blends(o, to, keep);
  return submit(__func__, *h, std::move(o));
}

cudnnStatus_t cudnnConvolutionBackwardBias(cudnnHandle_t handle, const void* alpha,
                                           const cudnnTensorDescriptor_t dy_descriptor, const void* dy,
                                           const void* beta, const cudnnTensorDescriptor_t db_descriptor, void* db) {
  std::lock_guard lock(runtime_mutex());
  const DnnHandle* h = dnn_handles().find(handle, __func__);
  if (!h || !alpha || !beta) return refuse(CUDNN_STATUS_BAD_PARAM, "%s: no handle, alpha or beta", __func__);
  const DnnOperand from{"dy", tensor_descriptions().find(dy_descriptor, __func__), dy};
  const DnnOperand to{"db", tensor_descriptions().find(db_descriptor, __func__), db};
  if (const auto status = check_operands(__func__, {from, to})) return status;
  const TensorDescription &x = *from.description, &b = *to.description;
  if (b.n != 1 || b.c != x.c || b.h != 1 || b.w != 1 || b.element != x.element)
    return refuse(CUDNN_STATUS_BAD_PARAM, "%s: db is %ld x %ld x %ld x %ld of %s, dy has %ld channels of %s", __func__,
                  b.n, b.c, b.h, b.w, name_of(b.element), x.c, name_of(x.element));
  if (x.element == Element::bf16)
    return refuse(CUDNN_STATUS_NOT_SUPPORTED, "%s: the library takes no tensors of bf16 here", __func__);
  check_overlap(__func__, to, {from});
  const double by = scaling(alpha, x.element), keep = scaling(beta, x.element);
  Operation o{.name = __func__, .step = [=] {
                with_compute_type(x.element, [&](auto element) {
                  using C = decltype(element);
                  const std::vector<C> values = load<C>(x, dy);
                  std::vector<double> sums(size_t(x.c));
                  for (size_t at = 0; at < values.size(); at += sums.size())
                    for (size_t k = 0; k < sums.size(); ++k) sums[k] += values[at + k];
                  store(b, db, std::vector<C>(sums.begin(), sums.end()), by, keep);
                });
                return Step::done;
              }};
  reads(o, {from});
  blends(o, to, keep);
  return submit(__func__, *h, std::move(o));
}

}  // extern "C"
