/// Going on with a run: which checkpoint --resume means, and whose folder it lies in.
#pragma once
#include "apps/cifar10/options.h"
#include "apps/cifar10/team.h"

#include <map>
#include <optional>
#include <string>

namespace tandem::cifar10 {

struct ResumePoint {
  std::string file;
  bool own_folder = false;                          // it lies in --checkpoint: later ones there are given up
  std::map<std::string, std::string> options = {};  // of the run that saved it
  std::string checksum = {};                        // of all that is in it
};

/// Reads what --resume names; empty without one, and where `auto` finds nothing. Throws IoError where there is no such
/// checkpoint or it is damaged, and Error where it is not a run's.
std::optional<ResumePoint> find_resume_point(const TrainOptions& o);

/// Throws Error, with each rank's step, where the ranks would not go on from the same state: on disks of their own they
/// may find different checkpoints, or none. Collective.
void require_same_start(const Team& team, const std::optional<ResumePoint>& from, int64_t step);

}  // namespace tandem::cifar10
