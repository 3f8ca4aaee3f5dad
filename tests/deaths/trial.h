/// A trial: one rank of a group ends, in a manner and in a phase, and the others are to name it.
#pragma once
#include <chrono>
#include <string>
#include <vector>

namespace tandem::deaths {

enum class Manner { kill, exception, exit, stop };
inline constexpr Manner kManners[] = {Manner::kill, Manner::exception, Manner::exit, Manner::stop};
std::string to_string(Manner m);

inline constexpr std::chrono::milliseconds kShortDeadline{2000}, kLongDeadline{60'000};

struct Trial {
  std::string phase;
  Manner manner = Manner::kill;
  std::string transport = "shm";  // "shm", "sockets", or "threads" of one process
  int ranks = 3;
  int victim = 0;
  /// Whether the others end their group as soon as they know, or hold it until all know.
  bool unwinds = true;
  /// Where the victim is killed from outside: so long after all ranks have joined, or after its process has started.
  std::chrono::milliseconds killed_after{-1};
  bool after_joining = true;
  /// The group's, where somebody is waited for in vain; a long one where no death is to be found by it.
  std::chrono::milliseconds deadline = kShortDeadline;
  /// Whether the library's own messages are shown.
  bool log = false;
};
std::string to_string(const Trial& t);
/// Whether the others wait for the victim until the deadline.
bool in_vain(const Trial& t);

struct Result {
  int survivors = 0, named = 0;
  std::chrono::milliseconds slowest{0};  // from the death to the last survivor's message
  bool victim_ended = false;             // before the deadline: else the machine is too busy for that deadline
  std::vector<std::string> faults;       // in words; none where all went well
};

/// Starts the ranks, each a process that executes this program once more, lets the victim end, hears the others, who
/// stay alive until all have been heard, and sees them end.
Result run(const Trial& trial);

/// What such a process does. Its exit code.
int run_as_rank(const Trial& trial);

/// As such a process is told of it.
std::vector<std::string> to_arguments(const Trial& t);
Trial from_arguments(const std::vector<std::string>& arguments);

}  // namespace tandem::deaths
