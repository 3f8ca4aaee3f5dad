#include <tandem/core/backend.h>
#include <tandem/core/device.h>

#include <atomic>
#include <charconv>
#include <cstdlib>

namespace tandem {
namespace {

int cpu_devices_from_environment() {
  const char* e = std::getenv("TANDEM_CPU_DEVICES");
  int n = e ? std::atoi(e) : 1;
  return n < 1 ? 1 : n > kMaxDevices ? kMaxDevices : n;
}
std::atomic<int>& cpu_devices() {
  static std::atomic<int> n{cpu_devices_from_environment()};
  return n;
}
}  // namespace

std::string to_string(DeviceKind k) { return k == DeviceKind::cpu ? "cpu" : "cuda"; }
std::string to_string(Device d) { return message(d.kind, ':', int(d.index)); }

Device parse_device(std::string_view text) {
  auto colon = text.find(':');
  std::string_view kind = text.substr(0, colon);
  int index = 0;
  bool ok = kind == "cpu" || kind == "cuda";
  if (colon != text.npos) {
    const char *first = text.data() + colon + 1, *last = text.data() + text.size();
    auto [end, error] = std::from_chars(first, last, index);
    ok = ok && error == std::errc{} && end == last && index >= 0 && index < kMaxDevices;
  }
  check<DeviceError>(ok, "\"", text, "\" is no device: it is cpu, cpu:1, cuda, cuda:0, ...");
  return {kind == "cpu" ? DeviceKind::cpu : DeviceKind::cuda, uint8_t(index)};
}

int device_count(DeviceKind kind) {
  if (kind == DeviceKind::cpu) return cpu_devices();
  Backend* b = find_backend(kind);
  return b ? b->count() : 0;
}

void set_cpu_devices(int n) {
  check<DeviceError>(n >= 1 && n <= kMaxDevices, "set_cpu_devices: from 1 to ", kMaxDevices, ", got ", n);
  int now = cpu_devices();
  while (now < n && !cpu_devices().compare_exchange_weak(now, n)) {
  }
}

void require_device(Device d) {
  if (d.kind == DeviceKind::cpu) {
    int n = cpu_devices();
    check<DeviceError>(d.index < n, d, ": there are ", n,
                       " CPU devices (TANDEM_CPU_DEVICES or set_cpu_devices asks for more)");
  } else {
    backend(d);
  }
}

}  // namespace tandem
