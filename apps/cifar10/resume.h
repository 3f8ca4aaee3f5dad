/// Going on with a run: which checkpoint --resume means, and whose folder it lies in.
#pragma once
#include "apps/cifar10/options.h"

#include <map>
#include <optional>
#include <string>

namespace tandem::cifar10 {

struct ResumePoint {
  std::string file;
  bool own_folder = false;                          // it lies in --checkpoint: later ones there are given up
  std::map<std::string, std::string> options = {};  // of the run that saved it
};

/// Reads what --resume names; empty without one, and where `auto` finds nothing. Throws IoError where there is no such
/// checkpoint or it is damaged, and Error where it is not a run's.
std::optional<ResumePoint> find_resume_point(const TrainOptions& o);

}  // namespace tandem::cifar10
