/// Devices as values: `cpu:0`, `cpu:1`, `cuda:0`. There are as many CPU devices as asked for (TANDEM_CPU_DEVICES or
/// set_cpu_devices); each is the home of a replica, so that programs for several devices run on a laptop.
#pragma once
#include <tandem/core/error.h>

#include <cstdint>

namespace tandem {

enum class DeviceKind : uint8_t { cpu, cuda };
inline constexpr int kDeviceKinds = 2;
inline constexpr int kMaxDevices = 64;  // of one kind

struct Device {
  DeviceKind kind = DeviceKind::cpu;
  uint8_t index = 0;
  bool operator==(const Device&) const = default;
  bool is_cpu() const { return kind == DeviceKind::cpu; }
};

inline Device cpu(int index = 0) { return {DeviceKind::cpu, uint8_t(index)}; }
inline Device cuda(int index = 0) { return {DeviceKind::cuda, uint8_t(index)}; }

TANDEM_API std::string to_string(DeviceKind);
TANDEM_API std::string to_string(Device);

/// "cpu", "cpu:1", "cuda", "cuda:0". Throws DeviceError for anything else.
TANDEM_API Device parse_device(std::string_view text);

/// How many devices of a kind there are; 0 for CUDA without driver, GPU or CUDA build.
TANDEM_API int device_count(DeviceKind kind);

/// Makes n CPU devices available (1 to kMaxDevices; default 1 or TANDEM_CPU_DEVICES). Devices once there stay.
TANDEM_API void set_cpu_devices(int n);

/// Throws DeviceError, saying what there is, where `d` does not exist.
TANDEM_API void require_device(Device d);

}  // namespace tandem
