/// Changing a tensor in place: add_, mul_, copy_, fill_ and zero_ are members of Tensor (core/tensor.h); here is their
/// contract, and the check that every op of this kind opens with.
///
/// The other operand broadcasts to the tensor's shape and is converted to its dtype; a floating result does not go into
/// an integer tensor (DtypeError). Each call counts as a change: what an op saved of the tensor before can't be used by
/// backward any more (Error).
///
/// While ops are recorded:
///   - a leaf that requires grad is refused (Error), as in PyTorch: wrap the change in a NoGradGuard;
///   - where the tensor or the other operand requires grad, the tensor takes the op's place in the graph, as in
///   PyTorch,
///     provided that nothing else shares its memory. PyTorch follows views through such a change; here a tensor with a
///     view, a detached alias or a saved copy alive, or which is itself a view, is refused (Error): use the op that
///     makes a new tensor. copy_, fill_ and zero_ cut the tensor off from its former history.
#pragma once
#include <tandem/core/record.h>

namespace tandem {

/// Throws Error where `x` may not be changed in place by an op of x and `others`, ShapeError where it was expanded (its
/// elements are not all distinct). Whether the change is to be recorded.
TANDEM_API bool require_changeable(const char* op, const Tensor& x, std::initializer_list<TensorRef> others = {});

}  // namespace tandem
