/// Activation checkpointing: memory for time. A part of a model keeps its inputs alone, and is run again in backward.
/// (Files of a training run's state are nn/checkpoint.h's.)
#pragma once
#include <tandem/core/tensor.h>

#include <functional>
#include <span>
#include <vector>

namespace tandem {

/// fn(inputs), keeping only the inputs: backward runs fn again instead of what it would have saved
/// (torch.utils.checkpoint.checkpoint; random draws are repeated). fn runs once at the call, too, with the tape, to
/// learn which parameters it uses. What it captures beyond parameters should not be the result of recorded ops that
/// the rest of the model uses too: pass it as an input, else backward throws Error (that part of the graph is freed).
TANDEM_API Tensor checkpoint(std::function<Tensor(std::span<const Tensor>)> fn, const std::vector<Tensor>& inputs);

}  // namespace tandem
