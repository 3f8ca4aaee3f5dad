/// NCCL's element types, and what is known of each.
#pragma once
#include <nccl.h>

#include "element.h"

namespace simgpu {

/// nullptr for a type that is not modelled.
inline const char* name_of(ncclDataType_t type) {
  switch (type) {
    case ncclInt8: return "int8";
    case ncclUint8: return "uint8";
    case ncclInt32: return "int32";
    case ncclUint32: return "uint32";
    case ncclInt64: return "int64";
    case ncclUint64: return "uint64";
    case ncclFloat16: return "float16";
    case ncclFloat32: return "float32";
    case ncclFloat64: return "float64";
    case ncclBfloat16: return "bfloat16";
    default: return nullptr;
  }
}

inline size_t bytes_of(ncclDataType_t type) {
  switch (type) {
    case ncclInt8:
    case ncclUint8: return 1;
    case ncclFloat16:
    case ncclBfloat16: return 2;
    case ncclInt64:
    case ncclUint64:
    case ncclFloat64: return 8;
    default: return 4;
  }
}

/// f(T()) for a type that has a name.
template <class F>
void with_type(ncclDataType_t type, F&& f) {
  switch (type) {
    case ncclInt8: return f(int8_t());
    case ncclUint8: return f(uint8_t());
    case ncclInt32: return f(int32_t());
    case ncclUint32: return f(uint32_t());
    case ncclInt64: return f(int64_t());
    case ncclUint64: return f(uint64_t());
    case ncclFloat16: return f(__half());
    case ncclFloat64: return f(double());
    case ncclBfloat16: return f(__nv_bfloat16());
    default: return f(float());
  }
}

}  // namespace simgpu
