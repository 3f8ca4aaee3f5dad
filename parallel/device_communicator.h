/// Not installed. DeviceCommunicator: collectives on tensors of devices that can carry them out among themselves, all
/// others by way of the host. The members first agree on each collective on the host: so ranks that ask for different
/// things, or don't come, are told so as anywhere else, and no device ever waits for one that was not there. Replays of
/// a captured step agree on nothing.
#pragma once
#include <tandem/parallel/device_watch.h>
#include <tandem/parallel/host_communicator.h>

#include <map>

namespace tandem {

class StepCapture;

/// Whether collectives on a device's tensors are the devices' affair.
enum class DeviceTransport {
  where_possible,  // where each member has a device of its own, whose library has an engine
  always,          // and what is missing is an error
  never
};

class DeviceCommunicator final : public Communicator {
 public:
  /// `transport` is not `never`.
  DeviceCommunicator(std::shared_ptr<Membership> membership, std::shared_ptr<Channel> channel,
                     std::unique_ptr<HostCommunicator> host, DeviceTransport transport);
  ~DeviceCommunicator() override;
  void abort(const std::string& why) override;

 protected:
  void do_run(const Collective& c) override;
  Work do_start(Collective c) override;

 private:
  struct Engine;
  std::shared_ptr<Engine> engine_for(const Collective& c);
  std::shared_ptr<Engine> connect(Device d, const std::string& label);
  std::string obstacle(const Tensor& identities) const;
  std::shared_ptr<Launched> launch(const std::shared_ptr<Engine>& e, const Collective& c, const Header& header,
                                   Launched& ready);
  void join_capture(StepCapture& capture, const std::shared_ptr<Engine>& e);

  const std::shared_ptr<Membership> membership_;
  const std::shared_ptr<Channel> channel_;
  std::unique_ptr<HostCommunicator> host_;
  const DeviceTransport transport_;
  std::map<int, std::shared_ptr<Engine>> engines_;  // by the device's number; null where the host carries values
};

}  // namespace tandem
