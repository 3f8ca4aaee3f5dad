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

 protected:
  void do_run(const Collective& c) override;
  Work do_start(Collective c) override;

 private:
  struct Task {
    Collective collective;
    std::shared_ptr<WorkState> state;
  };
  void lane();
  void execute(const Collective& c);
  void end(bool done);
  void carry_out(const Collective& c, const Header& h);
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
