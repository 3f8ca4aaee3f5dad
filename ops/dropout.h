/// Dropout by a counter-based generator: what is dropped depends on the seed, the step, the call within it and the
/// element's place in the global batch, and on neither threads nor layout nor replicas.
#pragma once
#include <tandem/core/kernel.h>
#include <tandem/core/node.h>

namespace tandem {

/// What the draws of one call depend on, as plain numbers: element e (in row-major order) of row r draws by the counter
/// (e / 4, r + row_offset) under a key made of the other three.
struct DropoutKey {
  uint64_t seed = 0;
  uint64_t step = 0;
  uint64_t call = 0;
  int64_t row_offset = 0;
};

/// mask is 1 with probability 1 - p, else 0 (u8); y = x * mask / (1 - p). All three have one shape and one dense
/// layout; y may be x. 0 < p <= 1, and for 1 all of y is x * 0.
inline constinit TANDEM_API KernelSlot<void(Tensor& y, Tensor& mask, const Tensor& x, const DropoutKey& key, double p)>
    dropout_forward{"dropout_forward"};
/// gx = gy * mask / (1 - p); one layout; gx may be gy.
inline constinit TANDEM_API KernelSlot<void(Out gx, const Tensor& gy, const Tensor& mask, double p)>
    dropout_backward_data{"dropout_backward_data"};

/// In training each element is zeroed with probability p and the others are multiplied by 1 / (1 - p); else x itself
/// (torch.nn.functional.dropout). Floating tensors; the first dimension is the batch. Takes its argument by value: a
/// temporary that nobody else holds is overwritten. Each call that draws counts up `context().random.call`. Throws
/// Error where p is not in [0, 1].
TANDEM_API Tensor dropout(Tensor x, double p = 0.5, bool training = true);

}  // namespace tandem
