#include <cuda_runtime.h>
#include <tandem/core/autograd.h>
#include <tandem/core/copy.h>
#include <tandem/cuda/check.h>
#include <tandem/cuda/device_fault.h>
#include <tandem/cuda/runtime.h>
#include <tandem/ops/binary.h>
#include <tandem/ops/compare.h>
#include <tandem/ops/view.h>
#include <tandem/ops/where.h>
#include <tandem/parallel/nccl_check.h>
#include <tandem/parallel/nccl_engine.h>

#include <chrono>
#include <cstring>
#include <optional>
#include <thread>
#include <vector>

namespace tandem::nccl_impl {
namespace {

using Kind = Collective::Kind;

// How long who ends waits for the others to end, too. Its own part is done: it doesn't need them.
constexpr std::chrono::milliseconds kFarewell{200};
constexpr std::chrono::milliseconds kAbortPatience{1000};
using cuda_impl::On;

// Streams are never destroyed: those of communicators that have ended serve the next ones.
class StreamLoans {
 public:
  Stream& take(Device d) {
    std::lock_guard lock(mutex_);
    auto& free = free_[d.index];
    if (free.empty()) return backend(d).new_stream(d.index);
    Stream* s = free.back();
    free.pop_back();
    return *s;
  }
  void give_back(Stream& s) {
    std::lock_guard lock(mutex_);
    free_[s.device.index].push_back(&s);
  }

 private:
  std::mutex mutex_;
  std::vector<Stream*> free_[kMaxDevices];
};
StreamLoans& loans() {
  static auto* l = new StreamLoans;
  return *l;
}

cudaStream_t native(Stream& s) { return static_cast<cudaStream_t>(s.native()); }

// This thread queues on `s`, and the device's own stream goes on meanwhile.
class OnStream {
 public:
  explicit OnStream(Stream& s) : device_(s.device), was_(context().stream[s.device.index]) {
    context().stream[device_.index] = &s;
  }
  ~OnStream() { context().stream[device_.index] = was_; }
  OnStream(const OnStream&) = delete;
  OnStream& operator=(const OnStream&) = delete;

 private:
  const Device device_;
  Stream* const was_;
};

// The end of what a stream has by now.
class Mark final : public Launched {
 public:
  explicit Mark(Stream& s) : device_(s.device) {
    On on(device_);
    TANDEM_CUDA(cudaEventCreateWithFlags(&event_, cudaEventDisableTiming));
    TANDEM_CUDA(cudaEventRecord(event_, native(s)));
  }
  ~Mark() override { cudaEventDestroy(event_); }
  Mark(const Mark&) = delete;
  Mark& operator=(const Mark&) = delete;

  bool is_completed() override {
    const cudaError_t e = cudaEventQuery(event_);
    if (e == cudaErrorNotReady) return false;
    TANDEM_CUDA(e);
    return true;
  }
  void join() override {
    On on(device_);
    TANDEM_CUDA(cudaStreamWaitEvent(on, event_, 0));
  }

 private:
  const Device device_;
  cudaEvent_t event_{};
};

// After an abort, which the device takes a moment to hear of.
void await_end(Mark&& mark) {
  const auto until = std::chrono::steady_clock::now() + kAbortPatience;
  while (!mark.is_completed() && std::chrono::steady_clock::now() < until)
    std::this_thread::sleep_for(std::chrono::milliseconds(1));
}

ncclDataType_t type_of(Dtype d) {
  switch (d) {
    case Dtype::f32: return ncclFloat32;
    case Dtype::f64: return ncclFloat64;
    case Dtype::f16: return ncclFloat16;
    case Dtype::bf16: return ncclBfloat16;
    case Dtype::i64: return ncclInt64;
    case Dtype::i32: return ncclInt32;
    case Dtype::u8:
    case Dtype::boolean: return ncclUint8;
  }
  throw DtypeError(message("[NCCL] has no ", d));
}

// Of bools, whose bytes are 0 or 1, a sum is an or.
ncclRedOp_t op_of(ReduceOp op, Dtype d) {
  if (op == ReduceOp::max || d == Dtype::boolean) return op == ReduceOp::min ? ncclMin : ncclMax;
  return op == ReduceOp::min ? ncclMin : ncclSum;
}

bool is_wide(Dtype d) { return d == Dtype::f32 || d == Dtype::f64; }

// A sum of values that NCCL multiplies as it reads them; it outlives no call.
class MultipliedSum {
 public:
  MultipliedSum(double factor, Dtype d, ncclComm_t comm) : comm_(comm) {
    const auto narrow = float(factor);
    double wide = factor;
    float single = narrow;
    void* scalar = d == Dtype::f64 ? static_cast<void*>(&wide) : &single;
    if (const ncclResult_t r = ncclRedOpCreatePreMulSum(&op_, scalar, type_of(d), ncclScalarHostImmediate, comm);
        r != ncclSuccess)
      fail(r, "ncclRedOpCreatePreMulSum", comm);
  }
  ~MultipliedSum() { ncclRedOpDestroy(op_, comm_); }
  MultipliedSum(const MultipliedSum&) = delete;
  MultipliedSum& operator=(const MultipliedSum&) = delete;
  operator ncclRedOp_t() const { return op_; }

 private:
  const ncclComm_t comm_;
  ncclRedOp_t op_{};
};

size_t bytes_of(const Tensor& t) { return size_t(t.numel()) * size_of(t.dtype()); }
std::byte* part_of(const Tensor& t, int size, int r) {
  return static_cast<std::byte*>(t.raw()) + bytes_of(t) / size_t(size) * size_t(r);
}

}  // namespace

NcclEngine::NcclEngine(Device d, const DeviceEngines::Key& key, int rank, int size, const Check& check)
    : device_(d), rank_(rank), size_(size), stream_(loans().take(d)) {
  try {
    On on(d);
    ncclUniqueId id;
    static_assert(sizeof id == sizeof key);
    std::memcpy(&id, key.data(), sizeof id);
    ncclConfig_t config = NCCL_CONFIG_INITIALIZER;
    config.blocking = 0;
    if (const ncclResult_t r = ncclCommInitRankConfig(&comm_, size, id, rank, &config);
        r != ncclSuccess && r != ncclInProgress)
      fail(r, "ncclCommInitRankConfig", comm_);
    call("ncclCommInitRankConfig", check, [](ncclComm_t, cudaStream_t) { return ncclInProgress; });
  } catch (...) {
    abort();
    loans().give_back(stream_);
    throw;
  }
}

NcclEngine::~NcclEngine() {
  cuda_impl::forget_lost_collectives(device_);  // whose group ends with all who used it
  if (comm_) {
    On on(device_);
    const auto until = std::chrono::steady_clock::now() + kFarewell;
    try {
      const Check in_time = [&] {
        check<CommError>(std::chrono::steady_clock::now() < until, "[NCCL] the other ranks have not ended theirs");
      };
      call("ncclCommFinalize", in_time, [](ncclComm_t comm, cudaStream_t) { return ncclCommFinalize(comm); });
      ncclCommDestroy(comm_);
    } catch (const Error&) {  // its peers are gone: nothing of it is needed any more
      abort();
    }
  }
  loans().give_back(stream_);
}

// Queues what f calls, and returns when the host's part of it is done: at first use NCCL connects the ranks.
template <class F>
void NcclEngine::call(const std::string& name, const Check& check, F&& f) {
  std::unique_lock lock(mutex_);
  auto require = [&] {
    if (!comm_) throw CommError(message("[NCCL] ", name, ": the communicator was aborted"));
  };
  require();
  ncclResult_t result = f(comm_, native(stream_));
  while (result == ncclInProgress) {
    lock.unlock();
    check();
    std::this_thread::sleep_for(std::chrono::microseconds(200));
    lock.lock();
    require();
    if (const ncclResult_t r = ncclCommGetAsyncError(comm_, &result); r != ncclSuccess) result = r;
  }
  if (result != ncclSuccess) fail(result, name, comm_);
}

std::string NcclEngine::error() {
  std::lock_guard lock(mutex_);
  if (!comm_) return {};
  ncclResult_t error = ncclSuccess;
  if (const ncclResult_t r = ncclCommGetAsyncError(comm_, &error); r != ncclSuccess) error = r;
  return error == ncclSuccess || error == ncclInProgress ? "" : describe(error, comm_);
}

void NcclEngine::abort(const std::string& lost_because) {
  if (!lost_because.empty()) cuda_impl::note_lost_collective(device_, lost_because);
  std::lock_guard lock(mutex_);
  if (ncclComm_t comm = std::exchange(comm_, nullptr)) ncclCommAbort(comm);
}

bool NcclEngine::is_capturing() const { return On(device_).capturing(); }

std::shared_ptr<Launched> NcclEngine::mark() { return std::make_shared<Mark>(current_stream(device_)); }

std::shared_ptr<Launched> NcclEngine::launch(const Collective& c, std::optional<double> factor, Launched& ready,
                                             const Check& check) {
  On on(device_);
  OnStream scope(stream_);
  ready.join();
  try {
    switch (c.kind) {
      case Kind::all_reduce:
      case Kind::reduce:
      case Kind::reduce_scatter: reduce(c, factor, check); break;
      default: exchange(c, check);
    }
  } catch (...) {  // its memory may be in use
    abort();
    await_end(Mark(stream_));
    throw;
  }
  return std::make_shared<Mark>(stream_);
}

// c.in multiplied by what the device knows, in f32 where it is narrower; what counts for nothing is zero.
Tensor multiplied_there(const Collective& c) {
  const Tensor wide = is_wide(c.in.dtype()) ? c.in : c.in.to(Dtype::f32);
  const Tensor numerator = c.premultiply.select(0, 0);
  const Tensor factor = (numerator / c.premultiply.select(0, 1)).to(wide.dtype());
  return where(eq(numerator, 0), 0, wide * factor);
}

// NCCL multiplies f32 and f64 as it reads them. Narrower values would be multiplied by a factor as narrow as they are:
// those are multiplied in f32 before. What counts for nothing becomes zero, whatever it was.
void NcclEngine::reduce(const Collective& c, std::optional<double> factor, const Check& check) {
  Tensor in = c.in;
  const Dtype dtype = in.dtype();
  const bool factor_there = c.premultiply && !factor;
  if (factor_there || (factor && (*factor == 0 || !is_wide(dtype)))) {
    NoGradGuard no_grad;
    if (c.kind != Kind::all_reduce) in = empty_like(in);  // the caller's own values stay
    if (factor_there)
      copy_into({in, 0}, multiplied_there(c));
    else if (*factor == 0)
      fill_into(in, 0);
    else
      copy_into({in, 0}, mul(c.in, *factor));
  }
  const auto from = in.raw();
  const auto n = size_t(c.kind == Kind::reduce_scatter ? c.out.numel() : c.in.numel());
  const ncclDataType_t type = type_of(dtype);
  call(to_string(c.kind), check, [&](ncclComm_t comm, cudaStream_t s) {
    std::optional<MultipliedSum> multiplied_sum;
    ncclRedOp_t op = op_of(c.op, dtype);
    if (factor && is_wide(dtype)) op = multiplied_sum.emplace(*factor, dtype, comm);
    switch (c.kind) {
      case Kind::all_reduce: return ncclAllReduce(from, from, n, type, op, comm, s);
      case Kind::reduce: return ncclReduce(from, rank_ == c.peer ? c.out.raw() : from, n, type, op, c.peer, comm, s);
      default: return ncclReduceScatter(from, c.out.raw(), n, type, op, comm, s);
    }
  });
}

// Bytes go from rank to rank.
void NcclEngine::exchange(const Collective& c, const Check& check) {
  const bool root = rank_ == c.peer;
  auto own = [&](void* to, const void* from, size_t bytes) {
    if (to != from && bytes) TANDEM_CUDA(cudaMemcpyAsync(to, from, bytes, cudaMemcpyDeviceToDevice, native(stream_)));
  };
  const auto n = size_t(size_);
  switch (c.kind) {
    case Kind::all_to_all: own(part_of(c.out, size_, rank_), part_of(c.in, size_, rank_), bytes_of(c.in) / n); break;
    case Kind::gather:
      if (root) own(part_of(c.out, size_, rank_), c.in.raw(), bytes_of(c.in));
      break;
    case Kind::scatter:
      if (root) own(c.out.raw(), part_of(c.in, size_, rank_), bytes_of(c.out));
      break;
    default: break;
  }
  call(to_string(c.kind), check, [&](ncclComm_t comm, cudaStream_t s) {
    ncclResult_t result = ncclSuccess;
    auto keep = [&](ncclResult_t r) {
      if (result == ncclSuccess || result == ncclInProgress) result = r == ncclSuccess ? result : r;
    };
    auto send = [&](int to, const void* p, size_t bytes) { keep(ncclSend(p, bytes, ncclUint8, to, comm, s)); };
    auto receive = [&](int from, void* p, size_t bytes) { keep(ncclRecv(p, bytes, ncclUint8, from, comm, s)); };
    keep(ncclGroupStart());
    switch (c.kind) {
      case Kind::broadcast:
        keep(ncclBroadcast(c.in.raw(), c.in.raw(), bytes_of(c.in), ncclUint8, c.peer, comm, s));
        break;
      case Kind::all_gather: keep(ncclAllGather(c.in.raw(), c.out.raw(), bytes_of(c.in), ncclUint8, comm, s)); break;
      case Kind::send: send(c.peer, c.in.raw(), bytes_of(c.in)); break;
      case Kind::recv: receive(c.peer, c.out.raw(), bytes_of(c.out)); break;
      case Kind::all_to_all:
        for (int r = 0; r < size_; ++r) {
          if (r == rank_) continue;
          send(r, part_of(c.in, size_, r), bytes_of(c.in) / n);
          receive(r, part_of(c.out, size_, r), bytes_of(c.out) / n);
        }
        break;
      case Kind::gather:
        if (!root) send(c.peer, c.in.raw(), bytes_of(c.in));
        for (int r = 0; root && r < size_; ++r)
          if (r != rank_) receive(r, part_of(c.out, size_, r), bytes_of(c.in));
        break;
      case Kind::scatter:
        if (!root) receive(c.peer, c.out.raw(), bytes_of(c.out));
        for (int r = 0; root && r < size_; ++r)
          if (r != rank_) send(r, part_of(c.in, size_, r), bytes_of(c.out));
        break;
      default: break;
    }
    keep(ncclGroupEnd());
    return result;
  });
}

// -- how core finds it --------------------------------------------------------------------------------------------

namespace {

class NcclEngines final : public DeviceEngines {
 public:
  Identity identity(Device d) override {
    cudaDeviceProp p{};
    TANDEM_CUDA(cudaGetDeviceProperties(&p, d.index));
    Identity id;
    static_assert(sizeof p.uuid == sizeof id);
    std::memcpy(id.data(), &p.uuid, sizeof id);
    return id;
  }
  Key new_key() override {
    ncclUniqueId id;
    if (const ncclResult_t r = ncclGetUniqueId(&id); r != ncclSuccess) fail(r, "ncclGetUniqueId", nullptr);
    Key key;
    std::memcpy(key.data(), &id, sizeof id);
    return key;
  }
  std::unique_ptr<DeviceEngine> connect(Device d, const Key& key, int rank, int size,
                                        const DeviceEngine::Check& check) override {
    return std::make_unique<NcclEngine>(d, key, rank, size, check);
  }
};

[[maybe_unused]] const bool registered = [] {
  register_device_engines(DeviceKind::cuda, *new NcclEngines);
  return true;
}();

}  // namespace
}  // namespace tandem::nccl_impl
