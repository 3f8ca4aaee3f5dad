#include "tests/support/child.h"
#include "tests/support/guard_pool.h"

#include <tandem/core/pool.h>
#include <tandem/core/tensor.h>

#include <doctest/doctest.h>

#include <cmath>
#include <optional>
#include <thread>

using namespace tandem;
using namespace tandem::test;

namespace {

constexpr size_t kMegabyte = 1 << 20;

// A device whose pool no other test uses.
struct Fresh {
  Device device;
  Fresh() {
    static int next = 40;
    device = cpu(next++);
    set_cpu_devices(device.index + 1);
  }
  Tensor make(size_t bytes) const { return empty({int64_t(bytes)}, {.dtype = Dtype::u8, .device = device}); }
  PoolStats stats() const { return pool(device).stats(); }
};

}  // namespace

TEST_CASE("child: caching: what is freed is handed out again" * doctest::skip()) {
  Fresh f;
  for (size_t bytes : {1ul, 64ul, 65ul, 4096ul, 5000ul, 300'000ul, kMegabyte, 3 * kMegabyte}) {
    CAPTURE(bytes);
    Tensor x = f.make(bytes);
    void* p = x.raw();
    CHECK(reinterpret_cast<uintptr_t>(p) % 64 == 0);
    x = {};
    const size_t calls = f.stats().system_calls;
    x = f.make(bytes);
    CHECK(x.raw() == p);
    CHECK(f.stats().system_calls == calls);
  }
  // A larger block serves where at most an eighth is wasted.
  Tensor x = f.make(800'000);
  void* p = x.raw();
  x = {};
  CHECK(f.make(400'000).raw() != p);
  CHECK(f.make(750'000).raw() == p);
}

TEST_CASE("child: caching: figures: allocated, peak, reserved" * doctest::skip()) {
  Fresh f;
  CHECK(memory_allocated(f.device) == 0);
  {
    Tensor a = f.make(kMegabyte), b = f.make(2 * kMegabyte);
    CHECK(memory_allocated(f.device) == 3 * kMegabyte);
  }
  CHECK(memory_allocated(f.device) == 0);
  CHECK(max_memory_allocated(f.device) == 3 * kMegabyte);
  CHECK(memory_reserved(f.device) == 3 * kMegabyte);
  reset_peak_memory_stats(f.device);
  CHECK(max_memory_allocated(f.device) == 0);
  Tensor nothing = f.make(0);
  CHECK(memory_allocated(f.device) == 0);
}

TEST_CASE("child: caching: empty_cache gives back what nobody holds" * doctest::skip()) {
  Fresh f;
  Tensor held = f.make(kMegabyte);
  { Tensor a = f.make(2 * kMegabyte), b = f.make(5 * kMegabyte); }
  CHECK(memory_reserved(f.device) == 8 * kMegabyte);
  empty_cache(f.device);
  CHECK(memory_reserved(f.device) == kMegabyte);
  held.data<uint8_t>()[kMegabyte - 1] = 1;
}

TEST_CASE("child: caching: out of memory: the figures, and what helps" * doctest::skip()) {
  Fresh f;
  set_memory_limit(8 * kMegabyte, f.device);
  Tensor a = f.make(4 * kMegabyte);
  std::optional<Tensor> b = f.make(2 * kMegabyte);
  context().op = "conv2d";
  CHECK_THROWS_WITH_AS(
      f.make(4 * kMegabyte),
      message("[conv2d] out of memory on ", f.device,
              ": 4194304 bytes wanted, 6291456 in use by tensors, 6291456 taken from the system, limit "
              "8388608. A smaller batch, checkpoint() or empty_cache() may help")
          .c_str(),
      OutOfMemoryError);
  context().op = "";
  // Freed blocks too small for it are given back before the pool gives up.
  b.reset();
  Tensor c = f.make(4 * kMegabyte);
  CHECK(memory_reserved(f.device) == 8 * kMegabyte);
  set_memory_limit(0, f.device);
  CHECK_NOTHROW(f.make(8 * kMegabyte));
  CHECK_THROWS_AS(f.make(size_t(1) << 60), OutOfMemoryError);  // more than any system has
}

// In a process whose environment does not turn the pool off, as that of memory checkers does.
TEST_CASE("the pool caches") { CHECK(passes_in_child("child: caching: *", {{"TANDEM_POOL", "on"}})); }

TEST_CASE("memory returns to its pool from any thread") {
  Fresh f;
  Tensor x = f.make(kMegabyte);
  std::thread([t = std::move(x)]() mutable { t = {}; }).join();
  CHECK(memory_allocated(f.device) == 0);
  std::vector<std::thread> threads;
  for (int k = 0; k < 4; ++k)
    threads.emplace_back([&f] {
      std::vector<Tensor> held(16);
      for (size_t i = 0; i < 2000; ++i) {
        Tensor& t = held[i % 16];
        t = f.make(1 + i * 37 % 9000);
        t.data<uint8_t>()[0] = uint8_t(i);
      }
    });
  for (auto& t : threads) t.join();
  CHECK(memory_allocated(f.device) == 0);
}

TEST_CASE("a context's pool takes the place of the device's") {
  GuardPool guard;
  {
    PoolGuard in_force(guard);
    CHECK(&pool(cpu()) == &guard);
    Tensor x = empty({3});
    CHECK(std::isnan(x.to_vector()[0]));  // its memory starts as NaN
    x.ptr<float>()[3] = 1;
    CHECK(guard.violations() == 1);
  }
  CHECK(&pool(cpu()) != &guard);
}

TEST_CASE("child: the pool is off" * doctest::skip()) {
  const size_t before = memory_reserved();
  {
    Tensor x = empty({100}), y = empty({int64_t(kMegabyte)});
    CHECK(memory_reserved() == before + 400 + 4 * kMegabyte);  // to the byte: a checker sees the bounds
  }
  CHECK(memory_reserved() == before);
  CHECK(memory_allocated() == before);
}

TEST_CASE("TANDEM_POOL=off gives every tensor memory of its own") {
  CHECK(passes_in_child("child: the pool is off", {{"TANDEM_POOL", "off"}}));
}
