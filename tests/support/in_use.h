/// The threads and descriptors of this process, for tests that leave none behind.
#pragma once
#include <doctest/doctest.h>

#include <chrono>
#include <cstddef>
#include <filesystem>
#include <iterator>
#include <thread>

namespace tandem::test {

struct InUse {
  ptrdiff_t threads, descriptors;
};

inline InUse in_use() {
  auto entries = [](const char* folder) {
    const std::filesystem::directory_iterator all(folder);
    return std::distance(begin(all), end(all));
  };
  return {entries("/proc/self/task"), entries("/proc/self/fd")};
}

/// Checks that there are as many as before. A thread that has been joined may be in /proc a moment longer.
inline void check_in_use(const InUse& before) {
  InUse now = in_use();
  const auto until = std::chrono::steady_clock::now() + std::chrono::seconds(5);
  while (now.threads != before.threads && std::chrono::steady_clock::now() < until) {
    std::this_thread::sleep_for(std::chrono::milliseconds(1));
    now = in_use();
  }
  CHECK(now.threads == before.threads);
  CHECK(now.descriptors == before.descriptors);
}

}  // namespace tandem::test
