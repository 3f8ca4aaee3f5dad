/// Tensors by name, in order: the form in which modules and optimizers hand out and take back their state.
#pragma once
#include <tandem/core/tensor.h>

#include <string>
#include <utility>
#include <vector>

namespace tandem::nn {

using NamedTensors = std::vector<std::pair<std::string, Tensor>>;

}  // namespace tandem::nn
