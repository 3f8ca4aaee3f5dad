/// A group's ranks as threads of this process, whatever they exchange values by.
#pragma once
#include <tandem/parallel/process_group.h>

#include <functional>
#include <string>
#include <vector>

namespace tandem::test {

/// A port of loopback that is free, for groups whose members must know it beforehand.
int free_port();

/// What a rank ended in; all well where nothing was thrown.
struct Outcome {
  std::string what;
  int culprit = -2;  // of a CommError
  std::chrono::milliseconds after{0};
};

/// Runs fn(rank) for each rank, on a thread of its own.
std::vector<Outcome> in_threads(int ranks, const std::function<void(int rank)>& fn);

/// Runs fn(group) once per rank, each on a thread of its own, in a group of that transport: "threads", or "shm" and
/// "sockets" with a store.
std::vector<Outcome> run_group(const std::string& transport, int ranks, const std::function<void(ProcessGroup&)>& fn,
                               std::chrono::milliseconds timeout = std::chrono::seconds(20));

inline constexpr const char* kTransports[] = {"threads", "shm", "sockets"};

}  // namespace tandem::test
