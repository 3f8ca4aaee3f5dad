/// The phases of a training run in which a rank may end.
#pragma once
#include "tests/deaths/part.h"

#include <functional>
#include <string>
#include <vector>

namespace tandem::deaths {

struct Phase {
  std::string name;
  /// What all ranks do once they have joined; the victim ends in it, the others find out in it or at their next call.
  std::function<void(Part&)> act = {};
  /// What the others say they were in: each of them one of these.
  std::vector<std::string> words;
  /// Before they join, where the victim does not come to that.
  std::function<void(Part&)> before = {};
  /// Whether the others join in vain, and find out at the deadline.
  bool found_at_deadline = false;
  /// Whether such a trial can be.
  std::function<bool(const Trial&)> possible = [](const Trial&) { return true; };
  /// Whether the others, too, end in good order: nobody needs the victim any more.
  bool harmless = false;
};

/// In the order in which a run has them.
const std::vector<Phase>& phases();
/// Everything, again and again, for ranks that are killed from outside.
const Phase& all_of_it();

/// Throws Error for a name that is none.
const Phase& phase_named(const std::string& name);

}  // namespace tandem::deaths
