#include "settings.h"

#include <algorithm>
#include <cstdlib>
#include <cstring>
#include <random>

#include "operation.h"

namespace simgpu {
namespace {

double number(const char* variable, double fallback, double low, double high) {
  const char* text = std::getenv(variable);
  if (!text || !*text) return fallback;
  char* end = nullptr;
  const double value = std::strtod(text, &end);
  if (*end || value < low || value > high)
    fail("%s is '%s', not a number from %.0f to %.0f", variable, text, low, high);
  return value;
}

bool host_mode() {
  const char* mode = std::getenv("SIMGPU_MODE");
  if (!mode || !*mode) return false;
  if (std::strcmp(mode, "host") != 0) fail("SIMGPU_MODE is '%s'; it can be 'host'", mode);
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
