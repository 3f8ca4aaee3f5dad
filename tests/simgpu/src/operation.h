/// What the simulator's libraries (cuBLASLt, cuDNN, NCCL) hand to its runtime: work for a stream, and the ranges of
/// memory that the work touches.
#pragma once
#include <cuda_runtime.h>

#include <cstddef>
#include <functional>
#include <mutex>
#include <string>
#include <vector>

namespace simgpu {

/// A range of device memory that an operation reads, or writes in full.
struct Access {
  const void* data;
  size_t bytes;
  bool write;
};

/// blocked: try later, a peer is not there yet. again: a part is done, go on later.
enum class Step { done, blocked, again };

enum class Kind { library_call, kernel, copy, fill, allocation, host_function, event, graph };

struct Operation {
  std::string name{};              // "cublasLtMatmul", or the kernel's
  std::function<Step()> step{};    // runs on the executor, device memory open
  std::vector<Access> accesses{};  // checked (range, device, initialised, ordered) before it runs: for library calls
  double flops = 0;                // for the roofline
  bool waits_for_peers = false;    // NCCL
  std::vector<const void*> pointers{};  // into memory that must be live when it runs: a kernel's arguments
  Kind kind = Kind::library_call;
  double flops_per_s = 0;  // at best; 0: the profile's for float32
};

struct Stream;  // of one device

/// Fails loudly for the default stream and for one that was destroyed.
Stream& stream_of(cudaStream_t s);
int device_of(const Stream& s);
bool is_capturing(const Stream& s);

/// Queues it, or adds a node where the stream is being captured.
void submit(Stream& s, Operation op);

/// Guards all of the simulator's state. Waiting for work releases it once: wait holding it once at most.
std::recursive_mutex& runtime_mutex();

/// The calling thread's.
int current_device();

bool is_device_memory(const void* p, size_t bytes, int* device);
/// Page-locked host memory.
bool is_pinned_memory(const void* p, size_t bytes);

/// Where the executor reads and writes what has that address: host memory whose pages are protected from the host while
/// a copy is in flight has a second address.
void* executor_view(const void* p);

/// Prints one "simgpu: error: ..." line with the kernel, block and thread that run, and the seed; ends the process
/// with 97.
[[noreturn]] void fail(const char* format, ...) __attribute__((format(printf, 1, 2)));

}  // namespace simgpu
