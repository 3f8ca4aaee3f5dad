/// Not installed. Membership: who belongs to a group, how its members fare, and how they are connected. One per rank
/// and group; the communicators of the group share it. Threads of one process and processes with a store each fill it
/// in.
///
/// A failure is a verdict: the first cause counts, everyone throws the same one, and nothing of the group can be used
/// afterwards. Errors on data connections name nobody: whoever meets one waits for the verdict.
#pragma once
#include <tandem/core/error.h>
#include <tandem/parallel/channel.h>
#include <tandem/parallel/header.h>

#include <atomic>
#include <chrono>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <vector>

namespace tandem {

class Transport;
using Clock = std::chrono::steady_clock;

/// How far a rank is, as the others see it.
struct Progress {
  uint64_t sequence = 0;
  uint32_t steps = 0;
};

class TANDEM_API Membership {
 public:
  Membership(int rank, int size, std::chrono::milliseconds timeout) : rank_(rank), size_(size), timeout_(timeout) {}
  Membership(const Membership&) = delete;
  Membership& operator=(const Membership&) = delete;
  virtual ~Membership() = default;

  int rank() const { return rank_; }
  int size() const { return size_; }
  std::chrono::milliseconds timeout() const { return timeout_; }

  /// A new channel of that name. It is kept for as long as the group lives: the others compare what it came to.
  std::shared_ptr<Channel> open(std::string name, std::vector<int> members);
  /// The way to the channel's other members. Collective among them. Throws CommError.
  virtual std::unique_ptr<Transport> connect(const std::shared_ptr<Channel>& channel) = 0;

  bool failed() const { return failed_.load(std::memory_order_acquire); }
  /// Throws the verdict, if there is one; with what this rank was in, which the verdict need not say.
  void check(const std::string& in = {}) const {
    if (failed()) [[unlikely]]
      throw_verdict(in);
  }
  [[noreturn]] void throw_verdict(const std::string& in = {}) const;
  /// Who is to blame, and why. Only once failed.
  std::pair<int, std::string> verdict() const;

  /// Makes this the verdict on this rank, if there is none yet, and wakes whoever waits here.
  void fail(int culprit, const std::string& why);
  /// The same for all members. Where there is one already on this rank, the others are told that one: this is its
  /// echo.
  void report(int culprit, const std::string& why);
  /// Whether anybody can still tell which member has died: the store has not ended.
  virtual bool has_judge() const { return true; }
  /// A deadline has passed in this channel: asks for a verdict, which comes as a failure. May be called again.
  virtual void expired(const Channel& channel, const std::string& what) = 0;
  /// A long wait goes on as long as all members' processes run: asks for a verdict on one that does not. May be called
  /// again. Threads of one process need not ask.
  virtual void require_alive(const Channel&, const std::string& /*what*/) {}

  /// This member goes, for that reason: the others hear it where they still need this one. Said once.
  virtual void leave(const std::string& reason) = 0;
  /// A member has left in good order, having completed that; others may go on without it as long as they do not need
  /// it.
  void left(int member, CompletedByChannel completed, const std::string& reason);
  /// Makes it the verdict where a member that the channel needs has left.
  void look_for_absent(const Channel& channel);

  /// A collective in this channel has thrown that: says so, with what the flight records have, the first time.
  void tell_failure(const Channel& channel, const CommError& error);

  /// Called once, from whatever thread, when the verdict is there (at once if it is). Nothing but `verdict` may be
  /// called back.
  int on_failure(std::function<void()> wake);
  void remove_on_failure(int id);

 protected:
  /// The verdict has come, and whoever waits is about to hear it. Called once; must not call back into here.
  virtual void on_verdict(int culprit, const std::string& why);
  /// For `report`. The verdict is there when it returns; at once where this rank has it already.
  virtual void tell_all(int culprit, const std::string& why) = 0;
  /// In those channels to whose members this rank is connected: what it says when it leaves.
  CompletedByChannel completed() const;
  /// All that were opened here.
  std::vector<std::shared_ptr<Channel>> channels() const;

 private:
  struct Departure {
    int member;
    CompletedByChannel completed;
    std::string reason;
  };
  /// Says so where a member that is needed has left.
  std::optional<std::pair<int, std::string>> absence(const Channel& channel) const;

  const int rank_, size_;
  const std::chrono::milliseconds timeout_;
  std::atomic<bool> failed_{false}, told_{false};
  mutable std::mutex mutex_;
  std::string verdict_;
  int culprit_ = -1;
  std::vector<Departure> departed_;  // in the order in which they left: the first one is the cause
  std::vector<std::shared_ptr<Channel>> channels_;
  std::map<int, std::function<void()>> wakes_;
  int next_wake_ = 0;
};

/// While members of a channel connect: the departure of one that had not connected ends it for the others, and at a
/// deadline those who have not even come are behind. Left without done(), the channel counts as never connected.
class TANDEM_API Connecting {
 public:
  /// Throws the verdict, or where a member that is needed has left.
  Connecting(Membership& membership, Channel& channel) : channel_(channel) {
    channel_.connecting = true;
    channel_.steps = 1;
    membership.look_for_absent(channel_);
    membership.check("connecting " + channel_.name);
  }
  void done() { channel_.connecting = false; }

 private:
  Channel& channel_;
};

/// Who is to blame when a collective's deadline passes, given how far each member is: those furthest behind. Empty
/// where all are equally far.
TANDEM_API std::vector<int> laggards(const std::vector<Progress>& of_members);

struct Blame {
  int culprit = -1;
  std::string why;
};
/// The verdict that follows: of `what`, for members who are these ranks.
Blame blame_for_delay(const std::string& what, const std::vector<int>& members, const std::vector<Progress>& progress);

/// A collective under way, as its transport sees it: a deadline, and whether anybody has failed.
class TANDEM_API Wait {
 public:
  /// With `patient` the deadline is for members that are silent: it goes on as long as all run.
  Wait(Membership& m, Channel& c, const Header& h, const std::string& label, std::chrono::milliseconds timeout,
       bool patient = false)
      : membership_(m),
        channel_(c),
        header_(h),
        label_(label),
        timeout_(timeout),
        patient_(patient),
        deadline_(Clock::now() + timeout) {}
  /// Throws the verdict if there is one. Past the deadline asks for one, and gives up on it after a while.
  void check();
  /// Only the deadline counts: for a wait that others' failure can't make longer and that must not end early.
  void check_deadline();
  /// How long a wait may sleep before it has to call check again.
  std::chrono::milliseconds nap() const;
  /// Counts a step of this collective, for the comparison at a deadline.
  void advance() { channel_.steps.fetch_add(1, std::memory_order_relaxed); }
  /// Throws CommError, on all ranks, where a member asks for something else than this one does.
  void require_match(int member, const Header& theirs);
  /// A connection broke, to this member: throws the verdict, which it waits for.
  [[noreturn]] void broken(int member, const std::string& how);
  /// The same where a device, which carries the values, says that.
  [[noreturn]] void broken_device(const std::string& what);
  /// The same where a member has withdrawn, and which one only the verdict can tell.
  [[noreturn]] void withdrawn();

 private:
  std::string here() const;
  std::string what() const;
  void await_verdict(std::chrono::milliseconds grace) const;

  Membership& membership_;
  Channel& channel_;
  const Header& header_;
  const std::string& label_;
  const std::chrono::milliseconds timeout_;
  const bool patient_;
  Clock::time_point deadline_;
  Clock::time_point asked_{};
};

}  // namespace tandem
