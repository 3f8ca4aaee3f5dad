/// The device that tests work on: the CPU, or what TANDEM_TEST_DEVICE names ("cuda:0"), where the same tests run again.
/// New tensors go there by default; a test that is about the CPU (its threads, its pool, raw pointers) says so with
/// `TEST_CASE("..." * cpu_only())`.
#pragma once
#include <tandem/core/device.h>

#include <doctest/doctest.h>

#include <cstdlib>
#include <vector>

namespace tandem::test {

inline Device test_device() {
  static const Device d = [] {
    const char* e = std::getenv("TANDEM_TEST_DEVICE");
    return e ? parse_device(e) : cpu();
  }();
  return d;
}

/// The i-th device of its kind. There are at least four.
inline Device test_device(int i) {
  if (test_device().is_cpu() && device_count(DeviceKind::cpu) < 4) set_cpu_devices(4);
  return {test_device().kind, uint8_t(i)};
}
inline std::vector<Device> test_devices(int n) {
  std::vector<Device> list;
  for (int i = 0; i < n; ++i) list.push_back(test_device(i));
  return list;
}

inline bool on_cpu() { return test_device().is_cpu(); }

inline doctest::skip cpu_only() { return doctest::skip(!on_cpu()); }
inline doctest::skip cuda_only() { return doctest::skip(on_cpu()); }

}  // namespace tandem::test
