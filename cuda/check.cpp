// CUDA's errors as exceptions. Most errors of kernels are reported late, by another call: so each device remembers the
// ops that used it last.
#include <tandem/core/context.h>
#include <tandem/cuda/check.h>

#include <array>
#include <atomic>
#include <cstdlib>
#include <cstring>

namespace tandem::cuda_impl {
namespace {

constexpr unsigned kRemembered = 6;
struct LastOps {
  std::atomic<unsigned> count{0};
  std::array<std::atomic<const char*>, kRemembered> op{};
};
std::array<LastOps, kMaxDevices> last_ops;

std::string last_ops_of(int device) {
  std::string text;
  const LastOps& ops = last_ops[size_t(device)];
  const unsigned n = ops.count;
  for (unsigned i = n > kRemembered ? n - kRemembered : 0; i < n; ++i)
    if (const char* op = ops.op[i % kRemembered]; op && *op) text += message(text.empty() ? "" : ", ", op);
  return text;
}

bool synchronous() {
  static const bool on = [] {
    const char* e = std::getenv("TANDEM_CUDA_SYNC");
    return e && !std::strcmp(e, "1");
  }();
  return on;
}

}  // namespace

void note_op(int device) {
  LastOps& ops = last_ops[size_t(device)];
  const char* op = context().op;
  const unsigned n = ops.count.load(std::memory_order_relaxed);
  if (n && ops.op[(n - 1) % kRemembered].load(std::memory_order_relaxed) == op) return;  // several kernels of one op
  ops.op[n % kRemembered].store(op, std::memory_order_relaxed);
  ops.count.store(n + 1, std::memory_order_relaxed);
}

void fail(Cause cause, const std::string& what) {
  int device = 0;
  cudaGetDevice(&device);
  cudaGetLastError();  // forgotten, where CUDA can forget it
  std::string text = message("[", context().op, "] ", cuda(device), ": ", what);
  if (cause == Cause::no_memory) throw OutOfMemoryError(text);
  if (cause == Cause::any_kernel && !synchronous())
    text += message("; an earlier kernel may be its cause: the last ops there were ", last_ops_of(device),
                    ". TANDEM_CUDA_SYNC=1 names the one");
  throw DeviceError(text);
}

void fail(cudaError_t error, const char* expression, const char* file, int line) {
  const char* name = std::strrchr(file, '/');
  fail(error == cudaErrorMemoryAllocation ? Cause::no_memory : Cause::any_kernel,
       message(cudaGetErrorString(error), " (", cudaGetErrorName(error), ") from ", expression, " at ",
               name ? name + 1 : file, ":", line));
}

void after_launch(cudaStream_t stream) {
  if (!synchronous()) return;
  cudaStreamCaptureStatus status{};
  TANDEM_CUDA(cudaStreamIsCapturing(stream, &status));
  if (status == cudaStreamCaptureStatusNone) TANDEM_CUDA(cudaStreamSynchronize(stream));
}

}  // namespace tandem::cuda_impl
