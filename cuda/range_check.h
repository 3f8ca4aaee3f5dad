/// Not installed. Whether a value on the device lies in [0, size): kernels ask before they use it as an index.
#pragma once
#include <tandem/core/context.h>
#include <tandem/cuda/device_fault.h>
#include <tandem/cuda/launch.h>

namespace tandem::cuda_impl {

struct RangeCheck {
  DeviceFault* fault;
  const char* op;
  RangeOf what;
  int dim;
  int64_t size;

  /// For the op that this thread last entered.
  RangeCheck(Device d, RangeOf w, int64_t s, int dimension = 0)
      : fault(fault_of(d)), op(context().op), what(w), dim(dimension), size(s) {}

  /// Notes a value that isn't, which is number `place` of its like.
  __device__ bool operator()(int64_t value, int64_t place) const {
    if (uint64_t(value) < uint64_t(size)) return true;
    if (atomicCAS(&fault->state, DeviceFault::kNone, DeviceFault::kTaken) == DeviceFault::kNone) {
      fault->what = what;
      fault->dim = dim;
      fault->op = op;
      fault->value = value;
      fault->place = place;
      fault->size = size;
      __threadfence_system();
      atomicExch(&fault->state, DeviceFault::kNoted);
    }
    return false;
  }
};

}  // namespace tandem::cuda_impl
