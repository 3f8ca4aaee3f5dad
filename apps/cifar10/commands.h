/// The subcommands of `cifar10`; each returns the program's exit code and throws Error where something is wrong.
#pragma once
#include "apps/cifar10/options.h"

namespace tandem::cifar10 {

int train(const TrainOptions& o);
int evaluate(const EvalOptions& o);
int predict(const PredictOptions& o);
int export_weights(const ExportOptions& o);

}  // namespace tandem::cifar10
