/// Not installed. DeviceEngine: collectives that devices carry out among themselves, without the host's memory (NCCL
/// for GPUs). It stands in the library of the devices' kind, which registers it when it is loaded; members and
/// deadlines are the communicator's affair.
#pragma once
#include <tandem/parallel/communicator.h>

#include <array>
#include <functional>
#include <memory>
#include <optional>

namespace tandem {

/// Work that has been queued on a device.
class Launched {
 public:
  virtual ~Launched() = default;
  virtual bool is_completed() = 0;
  /// What the calling thread queues there from now on runs after it.
  virtual void join() = 0;
};

class DeviceEngine {
 public:
  /// Called while the host has to wait for others: throws when there is no more use.
  using Check = std::function<void()>;

  virtual ~DeviceEngine() = default;
  /// Queues the collective after `ready`, an own mark; a step that is captured records it.
  /// `factor` is what this rank's values are multiplied by as they are read (0: they are not read), where it isn't on
  /// the device in c.premultiply; either all members have one or none.
  virtual std::shared_ptr<Launched> launch(const Collective& c, std::optional<double> factor, Launched& ready,
                                           const Check& check) = 0;
  /// All that the calling thread has queued on the device so far.
  virtual std::shared_ptr<Launched> mark() = 0;
  /// Whether the calling thread's work there is being recorded.
  virtual bool is_capturing() const = 0;
  /// What went wrong on the way, where something did.
  virtual std::string error() = 0;
  /// Ends what is under way, on the device too; nothing can be launched any more. Where something was, who next waits
  /// for the device is told with these words that its results are lost. From any thread.
  virtual void abort(const std::string& lost_because = {}) = 0;
};

/// The engines of a kind of devices.
class DeviceEngines {
 public:
  using Identity = std::array<std::byte, 16>;  // no other device anywhere has it
  using Key = std::array<std::byte, 128>;      // by which members find each other

  virtual ~DeviceEngines() = default;
  virtual Identity identity(Device d) = 0;
  virtual Key new_key() = 0;
  /// Collective among those who have the key.
  virtual std::unique_ptr<DeviceEngine> connect(Device d, const Key& key, int rank, int size,
                                                const DeviceEngine::Check& check) = 0;
};

/// Null where that kind's library has none, or there is no such library.
TANDEM_API DeviceEngines* find_device_engines(DeviceKind kind);
/// They must outlive all groups.
TANDEM_API void register_device_engines(DeviceKind kind, DeviceEngines& engines);

}  // namespace tandem
