/// Twins: how several threads run one module at once. A replica is a second set of tensors and not a second module:
/// each parameter and buffer has a twin per replica, and `enter`, which every op opens with, puts the twin of the
/// calling thread's replica in its place.
#pragma once
#include <tandem/core/tensor.h>

namespace tandem {

/// A replica as its thread knows it: `context().replica` while it runs.
struct Replica {
  int index = 0;
  Device device;
};

/// Of one tensor. Written while no replica runs, and only read while one does.
struct Twins {
  std::vector<std::pair<const Replica*, Tensor>> of;
};

/// The twin of `t` for that replica; `t` itself where it has none.
TANDEM_API const Tensor& twin(const Tensor& t, const Replica& r);
/// From now on `twin` stands for `t` in r's ops. The caller keeps a handle of its own, so that no op takes the twin for
/// a temporary that it may write over.
TANDEM_API void set_twin(const Tensor& t, const Replica& r, Tensor twin);
TANDEM_API void clear_twin(const Tensor& t, const Replica& r);

}  // namespace tandem
