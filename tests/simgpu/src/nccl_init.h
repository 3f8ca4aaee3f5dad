/// What the calls that make communicators have in common.
#pragma once
#include <nccl.h>

namespace simgpu {

/// INVALID_ARGUMENT for a config that was not initialised. Sets blocking where the config says so; the other options
/// are about speed, and change nothing here.
ncclResult_t check_config(const char* function, const ncclConfig_t* config, bool* blocking);

}  // namespace simgpu
