/// What memory holds that nobody has written: NaN in every floating type, -1 in the others.
#pragma once
#include <cstddef>
#include <cstring>

namespace simgpu {

inline constexpr unsigned char kPoison = 0xff;

inline void poison(void* p, size_t bytes) { std::memset(p, kPoison, bytes); }

}  // namespace simgpu
