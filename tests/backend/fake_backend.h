/// A backend for tests: two CUDA devices whose memory is the host's and whose kernels are the CPU's. It notes what it
/// is asked for, so that what goes through the interfaces of core/backend.h can be read off. In a binary of its own,
/// because a backend stays for the process.
#pragma once
#include <tandem/core/backend.h>
#include <tandem/core/kernel.h>

#include <algorithm>
#include <cstdlib>
#include <cstring>
#include <map>
#include <memory>
#include <set>
#include <string>
#include <vector>

namespace tandem::test {

/// What happened, in order: "s1 waits for s0", "copy 8 bytes cpu:0 to cuda:0".
inline std::vector<std::string>& events() {
  static std::vector<std::string> e;
  return e;
}

class FakePool final : public Pool {
 public:
  Block allocate(size_t bytes) override {
    if (limit_ && stats_.allocated + bytes > limit_) throw OutOfMemoryError("the fake device is full");
    Block b{std::malloc(bytes), bytes};
    live_.insert(b.data);
    stats_.allocated += bytes;
    stats_.max_allocated = std::max(stats_.max_allocated, stats_.allocated);
    ++stats_.system_calls;
    return b;
  }
  void free(Block b) noexcept override {
    if (!live_.erase(b.data)) std::abort();  // a block of another pool
    stats_.allocated -= b.capacity;
    std::free(b.data);
  }
  PoolStats stats() const override { return stats_; }
  void reset_peak() override { stats_.max_allocated = stats_.allocated; }
  void release_cached() override { events().push_back("release"); }
  void set_limit(size_t bytes) override { limit_ = bytes; }

 private:
  std::set<void*> live_;
  size_t limit_ = 0;
  PoolStats stats_;
};

struct FakeStream final : Stream {
  std::string name;
  FakePool memory;
  FakeStream(int index, std::string n) : name(std::move(n)) { device = cuda(index); }
  Pool& pool() override { return memory; }
  void* native() override { return this; }
  void wait(Stream& other) override { events().push_back(name + " waits for " + static_cast<FakeStream&>(other).name); }
  void synchronize() override { events().push_back(name + " synchronizes"); }
};

class FakeBackend final : public Backend {
 public:
  int count() override { return 2; }
  Stream& default_stream(int index) override {
    auto& s = default_[index];
    if (!s) s = std::make_unique<FakeStream>(index, message("default", index));
    return *s;
  }
  Stream& new_stream(int index) override {
    made_.push_back(std::make_unique<FakeStream>(index, message("stream", made_.size())));
    return *made_.back();
  }
  void copy_bytes(void* to, Device to_device, const void* from, Device from_device, size_t bytes) override {
    events().push_back(message("copy ", bytes, " bytes ", from_device, " to ", to_device));
    std::memcpy(to, from, bytes);
  }
  void zero_bytes(void* data, Device d, size_t bytes) override {
    events().push_back(message("zero ", bytes, " bytes on ", d));
    std::memset(data, 0, bytes);
  }
  void begin_capture(Stream&) override { throw DeviceError("the fake device captures nothing"); }
  std::unique_ptr<Graph> end_capture(Stream&) override { throw DeviceError("the fake device captures nothing"); }

 private:
  std::map<int, std::unique_ptr<FakeStream>> default_;
  std::vector<std::unique_ptr<FakeStream>> made_;
};

/// The backend, registered at the first call, with the CPU's kernels in all slots.
inline FakeBackend& fake() {
  static FakeBackend& b = [&]() -> FakeBackend& {
    static auto* backend = new FakeBackend;  // outlives every tensor
    register_backend(DeviceKind::cuda, *backend);
    for (auto* s : kernel_slots()) s->fn[int(DeviceKind::cuda)] = s->fn[int(DeviceKind::cpu)];
    return *backend;
  }();
  return b;
}

}  // namespace tandem::test
