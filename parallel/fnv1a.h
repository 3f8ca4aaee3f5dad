/// Not installed. FNV-1a, 32 bits: a number for a text, the same in every process.
#pragma once
#include <cstdint>
#include <string_view>

namespace tandem {

inline uint32_t fnv1a(std::string_view text) {
  uint32_t h = 2166136261u;
  for (unsigned char c : text) h = (h ^ c) * 16777619u;
  return h;
}

}  // namespace tandem
