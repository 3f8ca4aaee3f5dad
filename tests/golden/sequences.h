/// Runs sequences.json: lists that the reference draws or computes by step, and ours must equal.
#pragma once
#include "tests/golden/report.h"

namespace tandem::golden {

/// Each key is one sequence; labels are "sequences lr 3 CosineAnnealingLR".
void run_sequences(const std::string& path, const Options& options, Report& report);

}  // namespace tandem::golden
