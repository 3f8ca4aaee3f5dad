/// Not installed. NCCL's error codes as exceptions.
#pragma once
#include <nccl.h>
#include <tandem/core/error.h>

#include <string>

namespace tandem::nccl_impl {

/// What NCCL says of it, its last error, and what that most often comes from. `comm` may be null.
std::string describe(ncclResult_t error, ncclComm_t comm);

/// Throws CommError naming the call.
[[noreturn]] void fail(ncclResult_t error, const std::string& call, ncclComm_t comm);

}  // namespace tandem::nccl_impl
