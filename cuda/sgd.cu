// One pass over each run of neighbouring rows, 16 bytes at a time. Options are read from device memory: what a captured
// step replays follows them.
#include <tandem/cuda/rows.h>
#include <tandem/ops/sgd.h>

namespace tandem::cuda_impl {
namespace {

// A group's options as they are computed with.
template <class A>
struct Options {
  A lr, momentum, undamped, weight_decay, sign;
  bool has_momentum, nesterov;
  __device__ explicit Options(const double* o)
      : lr(A(o[kSgdLr])),
        momentum(A(o[kSgdMomentum])),
        undamped(A(1 - o[kSgdDampening])),
        weight_decay(A(o[kSgdWeightDecay])),
        sign(o[kSgdMaximize] != 0 ? A(-1) : A(1)),
        has_momentum(o[kSgdMomentum] != 0),
        nesterov(o[kSgdNesterov] != 0) {}

  // `first`: the buffer holds nothing yet, and is not read.
  template <class T>
  __device__ void update(T& p, T g, T* buffer, bool first) const {
    const A value = A(p);
    A d = sign * A(g) + weight_decay * value;
    if (has_momentum) {
      const A moved = first ? d : momentum * A(*buffer) + undamped * d;
      *buffer = T(moved);
      d = nesterov ? d + momentum * moved : moved;
    }
    p = T(value - lr * d);
  }
};

// buffer may be null where the group has no momentum.
template <class T>
__global__ void sgd_kernel(T* p, const T* g, T* buffer, const double* options, int64_t n, bool packed, bool first) {
  const Options<Compute<T>> o(options);
  constexpr int N = kPack<T>;
  using P = Pack<T, N>;
  const int64_t packs = packed ? n / N : 0;
  for (int64_t i = first_index(); i < packs; i += index_step()) {
    P value = reinterpret_cast<P*>(p)[i], moved{};
    const P grad = reinterpret_cast<const P*>(g)[i];
    if (o.has_momentum && !first) moved = reinterpret_cast<P*>(buffer)[i];
    for (int k = 0; k < N; ++k) o.update(value.v[k], grad.v[k], &moved.v[k], first);
    reinterpret_cast<P*>(p)[i] = value;
    if (o.has_momentum) reinterpret_cast<P*>(buffer)[i] = moved;
  }
  for (int64_t i = packs * N + first_index(); i < n; i += index_step())
    o.update(p[i], g[i], buffer ? buffer + i : nullptr, first);
}

void sgd_step_cuda(std::span<const ParamRow> rows, const Tensor& momentum_buffer, const Tensor& options) {
  if (rows.empty()) return;
  On on(options);
  dispatch_float(rows[0].leaf->meta.dtype, [&](auto t) {
    using T = decltype(t);
    for_each_run<T>(rows, [&](size_t first_row, size_t, int64_t n) {
      const ParamRow& r = rows[first_row];
      T *p = r.value<T>(), *buffer = momentum_buffer ? momentum_buffer.ptr<T>() + r.state_offset : nullptr;
      launch(on, grid_for((n + kPack<T> - 1) / kPack<T>), sgd_kernel<T>, p, r.grad<T>(), buffer,
             options.ptr<double>() + r.group * kSgdOptions, n, are_packed(p, r.grad<T>(), buffer), r.step == 0);
    });
  });
}

TANDEM_KERNEL(sgd_step, cuda, sgd_step_cuda);

}  // namespace
}  // namespace tandem::cuda_impl
