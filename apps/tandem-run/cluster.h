/// Where a cluster's own engine starts programs, it starts ranks without tandem-run: what to say to whoever used both.
#pragma once
#include "apps/tandem-run/options.h"

#include <tandem/parallel/rendezvous.h>

namespace tandem::launcher {

/// Why these options can't be meant in a task that srun or mpirun has started, with what to do; else empty.
std::string misuse_in_cluster(const Options& o, const Environment& environment);
/// What is worth knowing inside a SLURM job of several nodes; else empty.
std::string advice_in_cluster(const Options& o, const Environment& environment);

}  // namespace tandem::launcher
