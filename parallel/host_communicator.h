/// Not installed. HostCommunicator: collectives carried out by a transport in host memory, whatever the transport.
/// Tensors of other devices are staged. Asynchronous work runs on a thread of its own, the lane, in the order in which
/// it was started; the plain forms run on the caller's thread while the lane is idle.
#pragma once
#include <tandem/parallel/communicator.h>
#include <tandem/parallel/membership.h>
#include <tandem/parallel/transport.h>

#include <deque>
#include <thread>

namespace tandem {

class HostCommunicator final : public Communicator {
 public:
  /// `transport` may be null for a channel of one member.
  HostCommunicator(std::shared_ptr<Membership> membership, std::shared_ptr<Channel> channel,
                   std::unique_ptr<Transport> transport);
  ~HostCommunicator() override;
  void abort(const std::string& why) override;

  /// For collectives that devices carry out among themselves: in its turn, when all members have asked for the same
  /// one, with the checks, the deadline and the errors of one that goes through the host, calls carry_out.
  void run_agreed(const Collective& c, const std::function<void(const Header&)>& carry_out);
  Work start_agreed(Collective c, std::function<void(const Collective&, const Header&)> carry_out);

 protected:
  void do_run(const Collective& c) override;
  Work do_start(Collective c) override;

 private:
  struct Task {
    std::function<void()> run;
    std::shared_ptr<WorkState> state;
  };
  enum class Extent { everything, agreement };
  void run_in_turn(const std::function<void()>& f);
  Work start_in_turn(std::function<void()> f);
  void lane();
  Header execute(const Collective& c, Extent extent = Extent::everything);
  void end(bool done);
  void carry_out(const Collective& c, const Header& h, Extent extent);
  void compare(const Collective& c, const Header& h, Wait& wait);
  void move(const Collective& c, const Header& h, Wait& wait);
  void all_reduce(const Header& h, Tensor t, ReduceOp op, Wait& wait);
  void reduce(const Collective& c, const Header& h, Wait& wait);
  void exchange(const Collective& c, const Header& h, Wait& wait);

  const std::shared_ptr<Membership> membership_;
  const std::shared_ptr<Channel> channel_;
  const std::unique_ptr<Transport> transport_;

  std::mutex mutex_;
  std::condition_variable changed_;
  std::deque<Task> tasks_;
  bool running_ = false, stop_ = false;
  std::thread lane_;  // started at the first asynchronous collective
};

}  // namespace tandem
