/// The device that tests work on: the CPU, or what TANDEM_TEST_DEVICE names ("cuda:0"), where the same tests run again.
/// New tensors go there by default; a test that is about the CPU (its threads, its pool, raw pointers) says so with
/// `TEST_CASE("..." * cpu_only())`.
#pragma once
#include <tandem/core/device.h>

#include <doctest/doctest.h>

#include <cstdlib>

namespace tandem::test {

inline Device test_device() {
  static const Device d = [] {
    const char* e = std::getenv("TANDEM_TEST_DEVICE");
    return e ? parse_device(e) : cpu();
  }();
  return d;
}

inline bool on_cpu() { return test_device().is_cpu(); }

inline doctest::skip cpu_only() { return doctest::skip(!on_cpu()); }
inline doctest::skip cuda_only() { return doctest::skip(on_cpu()); }

}  // namespace tandem::test
