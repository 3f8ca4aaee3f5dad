// Many gradients in one launch: a kernel gets a list of them by value, and its blocks share out their parts.
#include <tandem/cuda/rows.h>
#include <tandem/ops/grad_norm.h>

#include <cmath>

namespace tandem::cuda_impl {
namespace {

constexpr int64_t kPart = 1 << 14;  // elements, for a block
constexpr int kListed = 100;        // a kernel takes 4 KB of arguments

// Part `part` of all of them belongs to the i-th tensor with begin[i] <= part < begin[i + 1].
template <class T>
struct GradList {
  int count = 0;
  T* data[kListed] = {};
  int64_t numel[kListed] = {}, begin[kListed + 1] = {};
  bool packed = true;

  __device__ int of_part(int64_t part) const {
    int i = 0;
    while (begin[i + 1] <= part) ++i;
    return i;
  }
  int64_t parts() const { return begin[count]; }
};

// Calls f(list) for the gradients of each dtype, kListed at a time, until none is left.
template <class F>
void for_each_list(std::span<const Tensor> grads, F f) {
  for (Dtype dtype : {Dtype::f32, Dtype::f64, Dtype::f16, Dtype::bf16})
    dispatch_float(dtype, [&](auto t) {
      using T = decltype(t);
      GradList<T> list;
      auto flush = [&] {
        if (list.count) f(list);
        list = {};
      };
      for (auto& g : grads) {
        if (g.dtype() != dtype || g.numel() == 0) continue;
        list.data[list.count] = g.ptr<T>();
        list.numel[list.count] = g.numel();
        list.begin[list.count + 1] = list.begin[list.count] + (g.numel() + kPart - 1) / kPart;
        list.packed = list.packed && are_packed(g.ptr<T>());
        if (++list.count == kListed) flush();
      }
      flush();
    });
}

Grid grid_of(int64_t parts) { return {dim3(unsigned(std::min<int64_t>(parts, 1 << 16))), dim3(kBlock)}; }

enum class Norm { p, one, two, largest };

// The larger of two magnitudes; NaN wins. Sums otherwise.
template <Norm kNorm>
using Combine = std::conditional_t<kNorm == Norm::largest, Max<double>, Sum<double>>;

template <Norm kNorm>
__device__ double term(double v, double p) {
  if constexpr (kNorm == Norm::two) return v * v;
  if constexpr (kNorm == Norm::p) return std::pow(std::abs(v), p);
  return std::abs(v);
}

template <Norm kNorm, class T>
__global__ void part_norms_kernel(double* partial, GradList<T> grads, double p) {
  using Op = Combine<kNorm>;
  for (int64_t part = blockIdx.x; part < grads.begin[grads.count]; part += gridDim.x) {
    const int i = grads.of_part(part);
    const int64_t from = (part - grads.begin[i]) * kPart;
    double acc = 0;
    each_of_lane(
        0, min(kPart, grads.numel[i] - from), int(threadIdx.x), int(blockDim.x), grads.packed,
        [&](Compute<T> v, int64_t) { acc = Op::combine(acc, term<kNorm>(double(v), p)); }, grads.data[i] + from);
    acc = block_reduce<Op>(acc);
    if (threadIdx.x == 0) partial[part] = acc;
  }
}

template <Norm kNorm>
__global__ void whole_norm_kernel(double* norm, const double* partial, int64_t parts, double p) {
  using Op = Combine<kNorm>;
  double acc = 0;
  for (int64_t i = threadIdx.x; i < parts; i += blockDim.x) acc = Op::combine(acc, partial[i]);
  acc = block_reduce<Op>(acc);
  if (threadIdx.x != 0) return;
  if constexpr (kNorm == Norm::two) acc = std::sqrt(acc);
  if constexpr (kNorm == Norm::p) acc = std::pow(acc, 1 / p);
  *norm = acc;
}

template <Norm kNorm>
void norm_of(Tensor& norm, std::span<const Tensor> grads, double p) {
  int64_t parts = 0;
  for (auto& g : grads) parts += (g.numel() + kPart - 1) / kPart;
  On on(norm);
  const Tensor partial = empty({parts}, {.dtype = Dtype::f64, .device = norm.device()});
  auto* to = partial.ptr<double>();
  for_each_list(grads, [&]<class T>(const GradList<T>& list) {
    launch(on, grid_of(list.parts()), part_norms_kernel<kNorm, T>, to, list, p);
    to += list.parts();
  });
  launch(on, {dim3(1), dim3(1024)}, whole_norm_kernel<kNorm>, norm.ptr<double>(), partial.ptr<double>(), parts, p);
}

void grad_norm_cuda(Tensor& norm, std::span<const Tensor> grads, double p) {
  if (std::isinf(p)) return norm_of<Norm::largest>(norm, grads, p);
  if (p == 2) return norm_of<Norm::two>(norm, grads, p);
  if (p == 1) return norm_of<Norm::one>(norm, grads, p);
  norm_of<Norm::p>(norm, grads, p);
}

// g = f(g) for every element of every gradient, unless f has nothing to do.
template <class T, class F>
__global__ void update_kernel(GradList<T> grads, F f) {
  if (!f.begin()) return;
  for (int64_t part = blockIdx.x; part < grads.begin[grads.count]; part += gridDim.x) {
    const int i = grads.of_part(part);
    const int64_t from = (part - grads.begin[i]) * kPart;
    T* g = grads.data[i] + from;
    write_of_lane(
        min(kPart, grads.numel[i] - from), int(threadIdx.x), int(blockDim.x), grads.packed, g, false,
        [&](Compute<T> v, int64_t) { return f(v); }, g);
  }
}

template <class A>
struct ScaleDown {
  const double* norm;
  double max_norm;
  A by = 1;
  __device__ bool begin() {
    const double factor = max_norm / (*norm + 1e-6);
    by = A(factor);
    return !(factor >= 1);  // a NaN goes on
  }
  __device__ A operator()(A v) const { return v * by; }
};

void grad_scale_cuda(std::span<const Tensor> grads, const Tensor& norm, double max_norm) {
  On on(norm);
  for_each_list(grads, [&]<class T>(const GradList<T>& list) {
    using F = ScaleDown<Compute<T>>;
    launch(on, grid_of(list.parts()), update_kernel<T, F>, list, F{norm.ptr<double>(), max_norm});
  });
}

template <class A>
struct Clamp {
  A limit;
  __device__ bool begin() { return true; }
  __device__ A operator()(A v) const { return v < -limit ? -limit : v > limit ? limit : v; }
};

void grad_clamp_cuda(std::span<const Tensor> grads, double limit) {
  if (grads.empty()) return;
  On on(grads[0]);
  for_each_list(grads, [&]<class T>(const GradList<T>& list) {
    using F = Clamp<Compute<T>>;
    launch(on, grid_of(list.parts()), update_kernel<T, F>, list, F{Compute<T>(limit)});
  });
}

TANDEM_KERNEL(grad_norm, cuda, grad_norm_cuda);
TANDEM_KERNEL(grad_scale, cuda, grad_scale_cuda);
TANDEM_KERNEL(grad_clamp, cuda, grad_clamp_cuda);

}  // namespace
}  // namespace tandem::cuda_impl
