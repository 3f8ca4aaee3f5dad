#include "apps/cifar10/team.h"

#include <tandem/core/parallel_for.h>
#include <tandem/parallel/run_replicas.h>

#include <algorithm>

namespace tandem::cifar10 {
namespace {

// How many there are to be: what was said, else one for each device, or each core of a CPU.
int replicas_of(const TrainOptions& o, Device device) {
  if (o.replicas) return o.replicas;
  return device.is_cpu() ? num_threads() : device_count(device.kind);
}

// As threads of this process, with those of the others where a launcher has started several.
int run_ranks(const TrainOptions& o, Device device, const std::function<int(const Team&)>& train) {
  const auto launched = launched_world_size();
  const int processes = launched.value_or(1);
  const int ranks = launched && !o.replicas ? processes : replicas_of(o, device);
  check(ranks % processes == 0, "--replicas ", o.replicas, ", which the ", processes,
        " processes that the launcher has started can't share evenly");
  if (launched && ranks == processes) {
    auto group = init_process_group();
    if (!device.is_cpu()) device.index = uint8_t(group.local_rank());
    require_device(device);
    return train({.group = &group, .device = device, .replicas = {}});
  }
  int code = 0;
  DeviceGuard on(device);
  const int threads = ranks / processes;
  run_replicas(threads, [&](int rank) {
    const int c = train({.group = &current_process_group(), .device = current_device(), .replicas = {}});
    if (rank % threads == 0) code = c;
  });
  return code;
}

}  // namespace

std::vector<double> Team::sum(const std::vector<double>& mine) const {
  if (size() == 1) return mine;
  Tensor t = from_vector(mine, {int64_t(mine.size())}, {.device = cpu()});
  group->communicator().all_reduce(t, {.label = "sums of the ranks"});
  return t.to_vector<double>();
}

bool Team::any(bool mine) const {
  if (size() == 1) return mine;
  Tensor t = tensor({int32_t(mine)}, {.device = cpu()});
  group->communicator().all_reduce(t, {.op = ReduceOp::max, .label = "whether to stop"});
  return t.item<int32_t>() != 0;
}

std::vector<int64_t> Team::each(int64_t mine) const {
  Tensor all = tensor({mine}, {.device = cpu()});
  if (size() > 1) {
    Tensor own = all;
    all = empty({size(), 1}, own.options());
    group->communicator().all_gather(all, own, {.label = "a number of each rank"});
  }
  return all.to_vector<int64_t>();
}

void Team::lead(const std::function<void()>& fn) const {
  if (group)
    group->rank0_only(fn);
  else
    fn();
}

std::string Team::describe(int batch_size) const {
  const auto n = group ? size_t(size()) : replicas.size();
  if (n < 2) return {};
  const auto whole = size_t(batch_size);
  const size_t least = whole / n, most = (whole + n - 1) / n;
  const int processes = launched_world_size().value_or(1);
  std::string what = " replicas";
  if (group && processes == 1) what = " ranks as threads";
  if (group && processes > 1)
    what = int(n) == processes ? " ranks as processes" : message(" ranks as threads of ", processes, " processes");
  return message(n, what, ": batches of ", whole, ", ", least, least == most ? "" : message(" or ", most), " each");
}

int run_team(const TrainOptions& o, Device device, const std::function<int(const Team&)>& train) {
  if (o.parallel == "ddp") return run_ranks(o, device, train);
  check(launched_world_size().value_or(1) == 1, "this process is one of ", launched_world_size().value_or(1),
        " that a launcher has started: --parallel ddp lets them train together");
  Team team;
  team.device = device;
  if (o.parallel == "dp") {
    const int n = replicas_of(o, device);
    if (device.is_cpu()) set_cpu_devices(std::max(n, device_count(DeviceKind::cpu)));
    for (int i = 0; i < n; ++i) team.replicas.push_back({device.kind, uint8_t(i)});
    team.device = team.replicas[0];
  }
  return train(team);
}

bool process_leads(const TrainOptions& o) { return o.parallel != "ddp" || launched_rank().value_or(0) == 0; }

}  // namespace tandem::cifar10
