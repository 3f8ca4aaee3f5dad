// cuBLASLt's handles and names of codes.
#include "cublaslt_descriptors.h"
#include "refusal.h"

using namespace simgpu;

extern "C" {

cublasStatus_t cublasLtCreate(cublasLtHandle_t* handle) {
  std::lock_guard lock(runtime_mutex());
  if (!handle) return refuse(CUBLAS_STATUS_INVALID_VALUE, "%s: nowhere to put the handle", __func__);
  *handle = lt_handles().add({current_device()});
  return CUBLAS_STATUS_SUCCESS;
}

cublasStatus_t cublasLtDestroy(cublasLtHandle_t handle) {
  std::lock_guard lock(runtime_mutex());
  if (!handle) return refuse(CUBLAS_STATUS_INVALID_VALUE, "%s: no handle", __func__);
  lt_handles().remove(handle, __func__);
  return CUBLAS_STATUS_SUCCESS;
}

size_t cublasLtGetVersion(void) { return CUBLAS_VERSION; }

const char* cublasLtGetStatusName(cublasStatus_t status) {
  switch (status) {
    case CUBLAS_STATUS_SUCCESS: return "CUBLAS_STATUS_SUCCESS";
    case CUBLAS_STATUS_NOT_INITIALIZED: return "CUBLAS_STATUS_NOT_INITIALIZED";
    case CUBLAS_STATUS_ALLOC_FAILED: return "CUBLAS_STATUS_ALLOC_FAILED";
    case CUBLAS_STATUS_INVALID_VALUE: return "CUBLAS_STATUS_INVALID_VALUE";
    case CUBLAS_STATUS_ARCH_MISMATCH: return "CUBLAS_STATUS_ARCH_MISMATCH";
    case CUBLAS_STATUS_MAPPING_ERROR: return "CUBLAS_STATUS_MAPPING_ERROR";
    case CUBLAS_STATUS_EXECUTION_FAILED: return "CUBLAS_STATUS_EXECUTION_FAILED";
    case CUBLAS_STATUS_INTERNAL_ERROR: return "CUBLAS_STATUS_INTERNAL_ERROR";
    case CUBLAS_STATUS_NOT_SUPPORTED: return "CUBLAS_STATUS_NOT_SUPPORTED";
    case CUBLAS_STATUS_LICENSE_ERROR: return "CUBLAS_STATUS_LICENSE_ERROR";
  }
  return "unknown status";
}

/// The real library describes the code alone; here it may be followed by what the calling thread's last refusal was.
const char* cublasLtGetStatusString(cublasStatus_t status) {
  if (status != CUBLAS_STATUS_SUCCESS && !last_refusal().empty()) return last_refusal().c_str();
  return cublasLtGetStatusName(status);
}

}  // extern "C"
