/// One rank's part in a trial: it does what the others do, and ends where the phase says so if it is the victim.
#pragma once
#include "tests/deaths/trial.h"

#include <tandem/parallel/process_group.h>

#include <stdexcept>

namespace tandem::deaths {

class Part {
 public:
  Part(const Trial& trial, int rank) : trial_(trial), rank_(rank) {}

  const Trial& trial() const { return trial_; }
  int rank() const { return rank_; }
  bool is_victim() const { return rank_ == trial_.victim && trial_.killed_after.count() < 0; }
  /// Another one, the same on all ranks: the next after the victim.
  int partner() const { return (trial_.victim + 1) % trial_.ranks; }

  /// The victim ends here, in the trial's manner; others go on. By then they have had this time to get to what they do
  /// next, of which their messages are to speak.
  void die(std::chrono::milliseconds after = std::chrono::milliseconds(30)) const;
  /// The victim ends in a while, whatever it is in then; in the manner of an exception, at once.
  void die_in(std::chrono::milliseconds time) const;

  /// It has joined that group.
  void enter(ProcessGroup& group) { group_ = &group; }
  ProcessGroup& group() const { return *group_; }
  Communicator& communicator() const { return group_->communicator(); }

  /// To whoever runs the trial.
  void say(const std::string& what) const;
  /// What the group's failure says; the first time only.
  void tell(const CommError& e);

 private:
  const Trial trial_;
  const int rank_;
  ProcessGroup* group_ = nullptr;
  bool told_ = false;
};

/// What the victim throws.
struct OwnTrouble : std::runtime_error {
  OwnTrouble() : runtime_error("own trouble") {}
};

}  // namespace tandem::deaths
