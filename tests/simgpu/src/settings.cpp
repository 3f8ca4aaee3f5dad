#include "settings.h"

#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <random>

#include "fail.h"

namespace simgpu {
namespace {

// fail() tells the seed, and so can't be used before it is known.
[[noreturn]] void refuse(const char* variable, const char* text, const char* expected) {
  std::fprintf(stderr, "simgpu: error: %s is '%s'; expected: %s\n", variable, text, expected);
  std::exit(kFailed);
}

double number(const char* variable, double fallback, double low, double high) {
  const char* text = std::getenv(variable);
  if (!text || !*text) return fallback;
  char* end = nullptr;
  const double value = std::strtod(text, &end);
  if (*end || value < low || value > high) {
    char expected[80];
    std::snprintf(expected, sizeof expected, "a number from %.0f to %.0f", low, high);
    refuse(variable, text, expected);
  }
  return value;
}

bool host_mode() {
  const char* mode = std::getenv("SIMGPU_MODE");
  if (!mode || !*mode) return false;
  if (std::strcmp(mode, "host") != 0) refuse("SIMGPU_MODE", mode, "host");
  return true;
}

}  // namespace

const Settings& settings() {
  static const Settings s{
      .seed = uint64_t(number("SIMGPU_SEED", 0, 0, 9e15)),
      .devices = int(number("SIMGPU_DEVICES", 2, 0, kMaxDevices)),
      .device_bytes = size_t(number("SIMGPU_MEMORY_MB", 4096, 1, 1 << 20)) << 20,
      .runs_nothing = host_mode(),
      .peer_timeout_s = number("SIMGPU_PEER_TIMEOUT", 60, 0, 1e6),
      .trace_path = std::getenv("SIMGPU_TRACE"),
  };
  return s;
}

uint32_t random_below(uint32_t n) {
  static auto& engine = *new std::mt19937_64(settings().seed);
  return uint32_t(engine() % n);
}

}  // namespace simgpu
