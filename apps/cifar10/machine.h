/// What a command runs on: the options that several of them share.
#pragma once
#include <tandem/core/device.h>

#include <string>

namespace tandem::cifar10 {

struct MachineOptions {
  std::string device = "cpu";
  int threads = 0;  // 0: what the machine has
};

/// Sets the number of threads, and returns the device once it is there. Throws DeviceError where it can't be.
Device set_up(const MachineOptions& o);

}  // namespace tandem::cifar10
