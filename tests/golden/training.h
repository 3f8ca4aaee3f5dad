/// Runs a training run of the reference's again: initial weights, losses, rates, gradients and final weights.
#pragma once
#include "tests/golden/report.h"

#include <tandem/nn/safetensors.h>

namespace tandem::golden {

/// `name` is the file's; `images` holds the pixels of the image models ("images" of the same folder), or nothing.
/// Labels are "train_net_sgd f64".
void run_training(const std::string& name, const SafetensorsFile& file, const SafetensorsFile& images,
                  const Options& options, Report& report);

}  // namespace tandem::golden
