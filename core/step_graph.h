/// A training step captured once and replayed as one launch (torch.cuda.CUDAGraph around the whole step): what the host
/// would have queued kernel by kernel, the device runs by itself.
///
///     StepGraph step([&] { optimizer.zero_grad(); loss = criterion(net(x), y); loss.backward(); optimizer.step(); });
///     for (...) { x.copy_(next_images); y.copy_(next_labels); step(); }
///
/// A replay runs the same kernels on the same memory. So the step reads its inputs from tensors that stay (new values
/// come by copy_), its results are the tensors that it assigned when it was captured, and what it decides on the host
/// it decides once. What the library varies from step to step is read from device memory and stays alive: learning
/// rates and all other options of optimizers, their step counts, dropout's counters. A step that reads values on the
/// host (item(), to_vector()) or writes them from there throws while it is captured.
#pragma once
#include <tandem/core/node.h>

#include <functional>
#include <memory>
#include <vector>

namespace tandem {

class TANDEM_API StepGraph {
 public:
  enum class OnChange { recapture, fail };
  struct Options {
    std::vector<Device> devices = {current_device()};  // all that the step works on; the first one launches
    int warm_up = 3;  // steps that run eagerly before: they allocate what the captured step will use
    /// Inputs that the program may replace by other tensors. Where one has other memory, shape or dtype than at
    /// capture, the step is captured again (after one eager step), or the call throws Error, as on_change says.
    std::vector<const Tensor*> inputs = {};
    /// Whatever else the step's course depends on, as a number: `[&] { return int64_t(net.is_training()); }`. The
    /// context's gradient mode and determinism are looked at anyway.
    std::function<int64_t()> mode = {};
    OnChange on_change = OnChange::recapture;
  };

  /// On CPU devices the step always runs eagerly. Throws DeviceError where a device does not exist, Error for no device
  /// or for CPU and CUDA devices mixed.
  explicit StepGraph(std::function<void()> step) : StepGraph(std::move(step), Options()) {}
  StepGraph(std::function<void()> step, Options options);
  ~StepGraph();
  StepGraph(const StepGraph&) = delete;
  StepGraph& operator=(const StepGraph&) = delete;

  /// One step: eager while warming up, then captured, then replayed; ordered after what the calling thread has queued
  /// on the devices, and before what it queues next. Where the pools turn out too small while capturing, that step runs
  /// eagerly and the next one tries again. Throws what the step throws; the graph is then forgotten.
  void operator()();

  bool is_captured() const;
  /// Kernels, copies and library calls of a replay; 0 before the capture.
  size_t nodes() const;
  /// Forgets the graph: the next step runs eagerly, the one after is captured.
  void reset();

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

/// What the host has to do again at each replay, collected while a step is captured: for parts of the library that keep
/// something of a step on the host.
class TANDEM_API StepCapture {
 public:
  /// The capture that the calling thread takes part in, or null.
  static StepCapture* current() { return context().capture; }

  /// Called before each replay on the replay's streams, and before the first launch: writes to device memory what the
  /// step reads there. False: the captured step no longer fits, and the step is captured anew.
  void before_replay(std::function<bool()> f);
  /// Called after each later replay: does to the host's state what the step did to it while it was captured.
  void after_replay(std::function<void()> f);
  /// Called after each launch, the first one too, with the replay's streams as the thread's own.
  void after_launch(std::function<void()> f);
  /// i64 [2] on `d`, as they are at each replay: the context's random step, and by how much its call counter is ahead
  /// of where it stood at capture.
  Tensor random_counters(Device d);

 private:
  friend class StepGraph;
  friend struct Leaf;
  friend void detail::note_change(Storage&);
  friend void detail::note_end(Storage&);
  struct Impl;
  StepCapture();
  ~StepCapture();
  friend std::default_delete<StepCapture>;
  void stop();  // collects no more
  void note_leaf(Leaf& leaf);
  void note_change(Storage& s);
  void note_end(Storage& s);
  std::unique_ptr<Impl> impl_;
};

}  // namespace tandem
