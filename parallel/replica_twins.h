/// Not installed.
/// The replicas of a module: for each of its parameters and buffers a twin per replica, and what keeps the twins like
/// the module's own tensors. Replica 0's twins share the originals' memory but have leaves of their own, so that its
/// backward does not meet the caller's. Where both devices are CPUs, all parameters' twins share the originals' memory;
/// buffers, which a forward may write, never do, so that only what replica 0 writes to them survives.
///
/// Nothing here may be called while a replica runs, save for reading.
#pragma once
#include <tandem/core/node.h>
#include <tandem/core/replica.h>
#include <tandem/nn/module.h>

namespace tandem {

class TANDEM_API ReplicaTwins {
 public:
  /// The replicas must outlive this. Throws DeviceError for a parameter or buffer that is not on the first one's
  /// device, Error for a module that another data-parallel wrapper holds.
  ReplicaTwins(const nn::Module& module, std::vector<const Replica*> replicas);
  ~ReplicaTwins();
  ReplicaTwins(const ReplicaTwins&) = delete;
  ReplicaTwins& operator=(const ReplicaTwins&) = delete;

  /// For a module that a late replica may still be running: it keeps its twins for good, and can't be wrapped again.
  void abandon() { abandoned_ = true; }

  size_t replicas() const { return replicas_.size(); }
  /// The module's own parameters, in order of registration.
  const std::vector<Tensor>& parameters() const { return parameters_; }
  /// Of that parameter; null where it is frozen.
  Leaf* leaf(size_t parameter) const { return static_cast<Leaf*>(leaves_[parameter].get()); }
  Leaf* twin_leaf(size_t replica, size_t parameter) const { return twins_[replica][parameter].tensor.leaf(); }

  /// Before a forward: freezes and thaws twins as their originals were since, and copies the values that have changed.
  void update();
  /// Before a backward: twins that share memory follow originals that were moved since (by an optimizer's
  /// construction, say).
  void follow_memory();
  /// Bytes of the originals that a replica on another device reads where they lie.
  size_t shared_bytes(size_t replica) const;
  /// Changes whenever a parameter was frozen or thawed: twins then have other leaves than before.
  uint64_t generation() const { return generation_; }

 private:
  struct Twin {
    Tensor tensor;
    bool shares = false;                         // the original's memory, on another device
    bool copied = false;                         // the versions below are meant
    uint32_t version = 0, original_version = 0;  // when they were last the same
  };
  const Tensor& original(size_t i) const {
    return i < parameters_.size() ? parameters_[i] : buffers_[i - parameters_.size()];
  }
  size_t originals() const { return parameters_.size() + buffers_.size(); }
  Twin make_twin(size_t original, size_t replica) const;
  void follow_leaf(size_t parameter);
  void copy_values(Twin& twin, const Tensor& original);
  void clear();

  std::vector<const Replica*> replicas_;
  std::vector<Tensor> parameters_, buffers_;
  std::vector<Ref<Node>> leaves_;         // of the parameters, as update() last saw them
  std::vector<std::vector<Twin>> twins_;  // [replica][original]
  uint64_t generation_ = 0;
  bool abandoned_ = false;
};

}  // namespace tandem
