#include "apps/cifar10/machine.h"

#include <tandem/core/parallel_for.h>

namespace tandem::cifar10 {

Device set_up(const MachineOptions& o) {
  if (o.threads) set_num_threads(o.threads);
  const Device device = parse_device(o.device);
  if (device.is_cpu()) set_cpu_devices(device.index + 1);  // there are as many as asked for
  require_device(device);
  return device;
}

}  // namespace tandem::cifar10
