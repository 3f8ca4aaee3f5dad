#include <tandem/core/backend.h>
#include <tandem/parallel/device_engine.h>

#include <atomic>

namespace tandem {
namespace {

std::atomic<DeviceEngines*> engines_of[kDeviceKinds];

}  // namespace

void register_device_engines(DeviceKind kind, DeviceEngines& engines) { engines_of[int(kind)] = &engines; }

DeviceEngines* find_device_engines(DeviceKind kind) {
  find_backend(kind);  // opens the library
  return engines_of[int(kind)];
}

}  // namespace tandem
