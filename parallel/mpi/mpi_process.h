/// Not installed. MpiProcess: MPI as this process has it: its start and its end, and messages that are polled.
///
/// Nothing here blocks but the wait for MPI's start, which has a deadline: what MPI can only do blocking, a thread of
/// its own does. MPI ends with the process, unless something has failed: its end waits for all ranks.
#pragma once
#include <tandem/parallel/membership.h>

#include <condition_variable>
#include <exception>
#include <span>

#include <sys/types.h>

namespace tandem {

/// A message under way. Its memory must stay until it is over.
struct MpiRequest {
  uint64_t handle = 0;
  bool under_way = false;
};

class MpiProcess {
 public:
  /// Starts MPI at the first call, unless the program has. Throws CommError where it can't be used, or the wait is
  /// over.
  static MpiProcess& get(Wait& wait);

  int rank() const { return rank_; }               // MPI's
  const std::string& job() const { return job_; }  // a text that no other MPI job has
  /// The first of so many tags at which no other channel of this process receives. Throws CommError where none are
  /// left.
  int take_tags(size_t count);

  /// These throw CommError.
  void send(std::span<const std::byte> data, int process, int tag, MpiRequest& request) const;
  void receive(std::span<std::byte> data, int process, int tag, MpiRequest& request) const;
  bool over(MpiRequest& request) const;

  void transport_begins();
  /// `well`: in good order, so that all ranks will come to MPI's end, within `patience`.
  void transport_ends(bool well, std::chrono::milliseconds patience);

 private:
  MpiProcess() = default;
  static MpiProcess& instance();
  void await_start(Wait& wait);
  void run();
  bool start();
  void end();

  struct Comm;  // MPI's; all of the job's processes, for this library alone
  Comm* comm_ = nullptr;
  int rank_ = 0;
  std::string job_;

  std::mutex mutex_;
  std::condition_variable changed_;
  bool asked_ = false, started_ = false, ending_ = false, ended_ = false, failed_ = false;
  std::exception_ptr error_;
  int64_t tags_ = 0, next_tag_ = 0;
  int transports_ = 0;
  std::chrono::milliseconds patience_{0};
  pid_t process_ = -1;
};

}  // namespace tandem
