/// Not installed: how layers write their arguments, as PyTorch's repr does.
#pragma once
#include <tandem/ops/pair.h>

#include <string>

namespace tandem::nn {

inline const char* repr(bool v) { return v ? "True" : "False"; }
inline std::string repr(Pair p) { return message('(', p.h, ", ", p.w, ')'); }

}  // namespace tandem::nn
