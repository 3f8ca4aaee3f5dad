/// N replicas of a module on N devices of one process (torch.nn.DataParallel):
///
///     DataParallel dp(net, {cpu(0), cpu(1)});
///     Tensor loss = criterion(dp(x), y);
///     loss.backward();
///     optimizer.step();
///
/// A replica is a thread that lives as long as the wrapper, with its share of the cores, and a second set of the
/// module's tensors; the module itself is there once. A wrapper is not a module: checkpoints are the module's own, with
/// the same keys wrapped or not.
#pragma once
#include <tandem/nn/module.h>

#include <chrono>
#include <functional>
#include <memory>

namespace tandem {

/// The numbers are those of the module alone on the whole batch, but for what depends on a batch's other samples
/// (batch norm works on each replica's share). Used by one thread at a time; several wrappers of different modules may
/// be used side by side and in one graph.
///
/// All replicas run the module's one `forward` at the same time, so it must not write members. What it does to a buffer
/// in place stays in its replica, and of replica 0's in the module, as in PyTorch. New tensors go to the replica's
/// device by default; a tensor that is neither parameter nor buffer stays where it is.
///
/// Of memory, every device has parameters, gradients of its own, and what its share's forward leaves for backward; all
/// of that alike. The first device has in addition what the caller keeps there: an optimizer's state, the whole batch,
/// and with `forward` the outputs of all samples and what the loss makes of them. `step` gathers no outputs.
///
/// The module must outlive the wrapper and the graphs that came of it. It can't be moved or converted while it is
/// wrapped. After a missed deadline it must outlive the replica that is still at work, and can't be wrapped again.
class TANDEM_API DataParallel {
 public:
  struct Options {
    /// Of each replica's ops; 0: the constructing thread's number, shared out (at least 1).
    int threads = 0;
    /// Gradients are added up in buckets, while backward goes on; a bucket closes once it has that many bytes.
    size_t first_bucket_bytes = size_t(1) << 20;
    size_t bucket_bytes = size_t(25) << 20;
    /// How long the replicas may take for one forward or backward.
    std::chrono::milliseconds timeout = std::chrono::minutes(5);
  };
  /// The mean loss of a replica's share, from its output and its part of the target, on its device.
  using LossFunction = std::function<Tensor(const Tensor& output, const Tensor& target)>;

  /// The module's tensors are on the first device, where outputs go, too. No devices: all of that kind, beginning with
  /// the module's. Throws DeviceError for a device that is given twice or does not exist, and for a module that is
  /// elsewhere; Error for one that is wrapped already.
  explicit DataParallel(nn::Module& module, std::vector<Device> devices = {})
      : DataParallel(module, std::move(devices), Options()) {}
  DataParallel(nn::Module& module, std::vector<Device> devices, Options options);
  ~DataParallel();
  DataParallel(const DataParallel&) = delete;
  DataParallel& operator=(const DataParallel&) = delete;

  /// x [n,...] from any device is split along its first dimension into parts that differ by at most one sample (fewer
  /// replicas work where there are fewer samples); outputs [n,...] are put together on the first device (of outputs
  /// without dimensions, a vector). An error in a replica is thrown with its type, named by replica and device.
  /// Throws CommError where a replica missed the deadline, and from then on at every call.
  Tensor operator()(const Tensor& x) { return forward(x); }
  Tensor forward(const Tensor& x);

  /// Forward, loss and backward within each replica, so that no device holds all outputs: x and target [n,...] are
  /// split, `loss` gives the mean over a share, gradients are added to the parameters' as `backward()` does. Returns
  /// the mean loss over the batch, on the first device. A `loss` that can't be copied (an nn::Loss) is used where it
  /// stands. One that weighs samples by something else than their number (class weights, ignored targets) weighs them
  /// within each share only.
  template <class Loss>
  Tensor step(const Tensor& x, const Tensor& target, Loss&& loss) {
    if constexpr (std::is_copy_constructible_v<std::decay_t<Loss>>)
      return step_with(x, target, std::forward<Loss>(loss));
    else
      return step_with(x, target, std::ref(loss));
  }

  nn::Module& module() const;
  const std::vector<Device>& devices() const;
  /// Bytes of parameters that replica r reads out of the first device's memory: on CPUs all of them, while another kind
  /// of device has a copy of its own (and 0 here, as replica 0 has). `max_memory_allocated` of the replica's device and
  /// this are together what a device that shares nothing needs.
  size_t shared_bytes(int replica) const;

 private:
  Tensor step_with(const Tensor& x, const Tensor& target, LossFunction loss);
  struct State;
  std::shared_ptr<State> state_;  // recorded graphs hold it, too
};

}  // namespace tandem
