#include <tandem/parallel/nccl_check.h>

namespace tandem::nccl_impl {
namespace {

// In the order in which to look.
const char* causes(ncclResult_t error) {
  switch (error) {
    case ncclUnhandledCudaError:
      return "a kernel failed before (TANDEM_CUDA_SYNC=1 names it), the GPU is out of memory, or the driver is older "
             "than this NCCL";
    case ncclSystemError:
      return "/dev/shm is too small (in a container: --shm-size=1g), a firewall is between the nodes, or "
             "NCCL_SOCKET_IFNAME has to name the interface between them";
    case ncclInternalError:
      return "the ranks have different versions of NCCL, or a fault in NCCL itself: NCCL_DEBUG=INFO says more";
    case ncclInvalidArgument:
    case ncclInvalidUsage:
      return "two ranks on one GPU, or ranks that don't make the same calls: NCCL_DEBUG=WARN says which";
    case ncclRemoteError: return "another rank has died, or the network between the nodes broke";
    default: return "NCCL_DEBUG=INFO says more";
  }
}

}  // namespace

std::string describe(ncclResult_t error, ncclComm_t comm) {
  const char* last = ncclGetLastError(comm);
  return message(ncclGetErrorString(error), last && *last ? message(" (NCCL says: ", last, ")") : "",
                 ". Most often: ", causes(error));
}

void fail(ncclResult_t error, const std::string& call, ncclComm_t comm) {
  throw CommError(message("[NCCL] ", call, ": ", describe(error, comm)));
}

}  // namespace tandem::nccl_impl
