/// The operands of cuDNN's simpler calls: what is checked of all, and the operation that touches them.
#pragma once
#include <initializer_list>

#include "cudnn_descriptors.h"
#include "library_stream.h"
#include "refusal.h"

namespace simgpu {

struct DnnOperand {
  const char* name;
  const TensorDescription* description;
  const void* data;
};

/// BAD_PARAM where a descriptor or pointer is missing or not aligned to its elements.
inline cudnnStatus_t check_operands(const char* function, std::initializer_list<DnnOperand> operands) {
  for (const DnnOperand& o : operands) {
    if (!o.description || !o.description->is_set || !o.data)
      return refuse(CUDNN_STATUS_BAD_PARAM, "%s: %s is missing, or its descriptor was not set", function, o.name);
    if (reinterpret_cast<uintptr_t>(o.data) % bytes_of(o.description->element))
      return refuse(CUDNN_STATUS_BAD_PARAM_MISALIGNED_POINTER, "%s: %s of %s at %p", function, o.name,
                    name_of(o.description->element), o.data);
  }
  return CUDNN_STATUS_SUCCESS;
}

/// Fails where the result lies over part of an operand, or of one that it can't replace.
inline void check_overlap(const char* function, const DnnOperand& result, std::initializer_list<DnnOperand> operands,
                          bool in_place_allowed = false) {
  const Footprint f = result.description->footprint(result.data);
  for (const DnnOperand& o : operands) {
    if (in_place_allowed && o.data == result.data) continue;
    if (f.overlaps(o.description->footprint(o.data))) fail("%s: %s overlaps %s", function, result.name, o.name);
  }
}

inline void reads(Operation& o, std::initializer_list<DnnOperand> operands) {
  for (const DnnOperand& x : operands) x.description->footprint(x.data).read_by(o);
}
inline void writes(Operation& o, std::initializer_list<DnnOperand> operands) {
  for (const DnnOperand& x : operands) x.description->footprint(x.data).written_by(o);
}

/// Blending with what the result held, where beta says so, reads it.
inline void blends(Operation& o, const DnnOperand& result, double beta) {
  if (beta != 0) reads(o, {result});
  writes(o, {result});
}

inline cudnnStatus_t submit(const char* function, const DnnHandle& h, Operation o) {
  Stream* s = find_stream(function, h.device, h.stream);
  if (!s) return CUDNN_STATUS_EXECUTION_FAILED;
  submit(*s, std::move(o));
  return CUDNN_STATUS_SUCCESS;
}

}  // namespace simgpu
