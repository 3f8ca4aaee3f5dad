/// Runs the op cases of one file through the adapters of tests/ops: outputs, and gradients for the given upstream ones.
#pragma once
#include "tests/golden/report.h"

#include <tandem/nn/safetensors.h>

namespace tandem::golden {

/// `name` is the file's, without folder and suffix. Labels are "norm 3 batch_norm f32".
void run_op_cases(const std::string& name, const SafetensorsFile& file, const Options& options, Report& report);

}  // namespace tandem::golden
