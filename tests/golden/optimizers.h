/// Optimizers and schedules by the reference's names and keyword arguments, as the golden files give them.
#pragma once
#include <tandem/nn/lr_scheduler.h>

#include <nlohmann/json_fwd.hpp>

#include <memory>

namespace tandem::golden {

/// spec: {"type": "SGD", "lr": 0.1, ...}. Throws Error for a type or an argument that is not known.
std::unique_ptr<nn::Optimizer> make_optimizer(const nlohmann::json& spec, std::vector<Tensor> parameters);

/// type: "StepLR", ...; args: its keyword arguments. Throws likewise.
std::unique_ptr<nn::LRScheduler> make_scheduler(const std::string& type, const nlohmann::json& args,
                                                nn::Optimizer& optimizer);

}  // namespace tandem::golden
