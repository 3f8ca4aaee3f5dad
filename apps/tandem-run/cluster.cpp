#include "apps/tandem-run/cluster.h"

#include <tandem/core/error.h>

#include <cstdlib>

namespace tandem::launcher {
namespace {

int number(const Environment& environment, const char* name) {
  return std::atoi(environment(name).value_or("0").c_str());
}

}  // namespace

std::string misuse_in_cluster(const Options& o, const Environment& environment) {
  std::string engine;
  int tasks = 0;
  if (environment("OMPI_COMM_WORLD_SIZE")) {
    engine = "mpirun";
    tasks = number(environment, "OMPI_COMM_WORLD_SIZE");
  } else if (environment("SLURM_STEP_ID") && environment("SLURM_STEP_NUM_TASKS")) {
    engine = "srun";
    tasks = number(environment, "SLURM_STEP_NUM_TASKS");
  }
  if (tasks <= 1 || tasks == o.nodes) return "";
  return message(
      "this is one of ", tasks, " tasks that ", engine, " has started, and each would start ", o.ranks,
      " ranks. Leave tandem-run out: `", engine, " ", o.command[0],
      " ...` makes each task a rank. Or start one task per node, with --nnodes, --node-rank and --master-addr");
}

std::string advice_in_cluster(const Options& o, const Environment& environment) {
  const int nodes = number(environment, "SLURM_NNODES");
  if (o.nodes > 1 || nodes <= 1) return "";
  return message("this SLURM job has ", nodes, " nodes and only this one is used: `srun ", o.command[0],
                 " ...`, without tandem-run, makes each of the job's tasks a rank");
}

}  // namespace tandem::launcher
