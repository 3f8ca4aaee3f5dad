/// What belongs to a thread: gradient mode, current device, streams, threads, generator, random counters. It belongs to
/// the thread and never to the process, because a replica is a thread; whoever hands a task to another thread copies
/// it.
#pragma once
#include <tandem/core/device.h>

#include <memory>
#include <utility>

namespace tandem {

class Generator;
class Pool;
class ProcessGroup;
struct Replica;
class StepCapture;
struct Stream;

/// Where the counter-based generator of dropout stands. Draws are keyed by (seed, step, call, row), so they depend
/// neither on threads nor on replicas. `call` counts by itself; a trainer that resumes sets `step` before each step.
struct RandomStep {
  uint64_t seed = 0;
  uint64_t step = 0;
  uint64_t call = 0;
  int64_t row_offset = 0;  // of this replica's rows in the global batch
};

/// A generator held by value, made at its first use. A copy goes on from where the original stands, on its own: two
/// threads never draw from one generator.
class TANDEM_API LazyGenerator {
 public:
  LazyGenerator();                        // PyTorch's default seed
  explicit LazyGenerator(uint64_t seed);  // what it is seeded with once something is drawn
  LazyGenerator(const LazyGenerator&);
  LazyGenerator(LazyGenerator&&) noexcept;
  LazyGenerator& operator=(LazyGenerator) noexcept;
  ~LazyGenerator();
  Generator& get();

 private:
  uint64_t seed_;
  std::unique_ptr<Generator> made_;
};

struct Context {
  bool grad = true;           // ops are recorded
  bool retain_graph = false;  // of the backward now running
  bool detect_anomaly = false;
  bool deterministic = false;
  bool tf32_matmul = false;          // see allow_tf32_matmul
  bool tf32_convolution = false;     // see allow_tf32_convolution
  bool benchmark = false;            // see benchmark_convolutions
  Device device;                     // where new tensors go
  Stream* stream[kMaxDevices] = {};  // of cuda:i; null means the device's own
  int threads = 0;                   // 0: what the process has
  Pool* pool = nullptr;  // if set, where CPU tensors get memory instead of their device's pool (a checker's, say)
  const char* op = "";   // the op this thread last entered, for errors that come from below it
  RandomStep random;
  LazyGenerator generator;
  const Replica* replica = nullptr;       // whose twins stand for parameters and buffers; see core/replica.h
  StepCapture* capture = nullptr;         // the step graph that records what this thread does; see core/step_graph.h
  ProcessGroup* process_group = nullptr;  // the group this thread is a rank of; see parallel/process_group.h
};

/// The calling thread's context.
TANDEM_API Context& context();

/// Sets the calling thread's context to `c` for a scope: how a task carries its poster's context.
class ContextGuard {
 public:
  explicit ContextGuard(Context c) : was_(std::exchange(context(), std::move(c))) {}
  ~ContextGuard() { context() = std::move(was_); }
  ContextGuard(const ContextGuard&) = delete;
  ContextGuard& operator=(const ContextGuard&) = delete;

 private:
  Context was_;
};

/// New tensors of this thread go to `d` for a scope (torch.device as a context manager).
class DeviceGuard {
 public:
  explicit DeviceGuard(Device d) : was_(context().device) {
    require_device(d);
    context().device = d;
  }
  ~DeviceGuard() { context().device = was_; }
  DeviceGuard(const DeviceGuard&) = delete;
  DeviceGuard& operator=(const DeviceGuard&) = delete;

 private:
  Device was_;
};

inline Device current_device() { return context().device; }

/// Asks for kernels whose results are the same bits in every run (torch.use_deterministic_algorithms). All CPU kernels
/// are; of a device whose fast kernels are not, others are chosen. Per thread, carried with tasks.
inline void use_deterministic_algorithms(bool on) { context().deterministic = on; }

/// Lets matrix products of f32 round their operands to TF32 (10 bits of mantissa), several times faster on GPUs that
/// have it (torch.backends.cuda.matmul.allow_tf32). Off by default: f32 is f32. Per thread, carried with tasks.
inline void allow_tf32_matmul(bool on) { context().tf32_matmul = on; }
/// The same for convolutions (torch.backends.cudnn.allow_tf32, which PyTorch has on by default; here it is off).
inline void allow_tf32_convolution(bool on) { context().tf32_convolution = on; }

/// A GPU's convolution algorithms are chosen by timing them when sizes are first met, which takes a while, instead of
/// by the library's rules (torch.backends.cudnn.benchmark). Off by default. Per thread, carried with tasks.
inline void benchmark_convolutions(bool on) { context().benchmark = on; }

}  // namespace tandem
