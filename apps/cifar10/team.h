/// Who trains together: one device alone, replicas of DataParallel, or the ranks of a group, which are threads of this
/// process, processes that a launcher has started, or threads of those.
#pragma once
#include "apps/cifar10/options.h"

#include <tandem/parallel/process_group.h>

#include <functional>

namespace tandem::cifar10 {

/// One rank's view. Everything here is called on all ranks alike.
struct Team {
  ProcessGroup* group = nullptr;  // of ddp
  Device device;                  // this rank's
  std::vector<Device> replicas;   // of dp; its first is `device`

  int rank() const { return group ? group->rank() : 0; }
  int size() const { return group ? group->size() : 1; }
  /// Whether this rank does the talking and the writing.
  bool leads() const { return rank() == 0; }
  /// Over all ranks.
  std::vector<double> sum(const std::vector<double>& mine) const;
  bool any(bool mine) const;
  /// Each rank's number, in their order.
  std::vector<int64_t> each(int64_t mine) const;
  /// On the leading rank, while the others wait.
  void lead(const std::function<void()>& fn) const;
  /// "2 ranks as threads, batches of 64 each", empty where one device trains alone.
  std::string describe(int batch_size) const;
};

/// Calls train(team) on every rank of what the options ask for, and returns what the leading one did. Throws Error
/// where
/// --replicas contradicts the launcher.
int run_team(const TrainOptions& o, Device device, const std::function<int(const Team&)>& train);

/// Whether this process leads: it is no rank, or rank 0. For what is said before the ranks have met.
bool process_leads(const TrainOptions& o);

}  // namespace tandem::cifar10
