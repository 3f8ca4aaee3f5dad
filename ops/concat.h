/// Joining tensors along a dimension, an existing one (cat) or a new one (stack). Both only copy, so they have no
/// kernels of their own.
#pragma once
#include <tandem/core/tensor.h>

namespace tandem {

/// The tensors one after the other along `dim` (torch.cat). Shapes agree but for `dim`; one-dimensional tensors of no
/// elements are skipped, as PyTorch skips them; dtypes are promoted. Throws ShapeError where there is no tensor, where
/// shapes differ, or where `dim` is out of range; DeviceError where devices differ.
TANDEM_API Tensor cat(const std::vector<Tensor>& tensors, int dim = 0);

/// Tensors of one shape along a new dimension `dim`, from 0 to dim() (torch.stack). Throws as cat does.
TANDEM_API Tensor stack(const std::vector<Tensor>& tensors, int dim = 0);

}  // namespace tandem
