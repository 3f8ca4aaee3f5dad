/// How many operations a second the libraries do at best: on tensor cores, but for float32 that may not be rounded.
#pragma once
#include "device_profile.h"
#include "element.h"

namespace simgpu {

inline double peak_flops_per_s(Element e, bool tf32) {
  switch (e) {
    case Element::f64: return kProfile.flops_tensor_64;
    case Element::f32: return tf32 ? kProfile.flops_tensor_tf32 : kProfile.flops_f32;
    case Element::f16:
    case Element::bf16: break;
  }
  return kProfile.flops_tensor_16;
}

}  // namespace simgpu
