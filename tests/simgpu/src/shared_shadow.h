/// The cells of shared memory, in the checked mode: what one block does with it. See cell.h.
#pragma once
#include "cell.h"

namespace simgpu {

/// False where the access isn't to shared memory of the running block.
bool check_shared_access(const CheckedAccess& access);

}  // namespace simgpu
