#include <tandem/parallel/copy_bytes.h>

#include <cstring>

namespace tandem {
namespace {

// What one register holds.
#if defined(__AVX512F__)
using Block [[gnu::vector_size(64)]] = unsigned char;
#elif defined(__AVX__)
using Block [[gnu::vector_size(32)]] = unsigned char;
#else
using Block [[gnu::vector_size(16)]] = unsigned char;
#endif

// At any address.
Block load(const std::byte* from) {
  Block b;
  std::memcpy(&b, from, sizeof b);
  return b;
}
void store(std::byte* to, Block b) { std::memcpy(to, &b, sizeof b); }

}  // namespace

// Four loads before their stores, which no compiler takes for a memcpy of everything.
void copy_bytes(std::byte* to, const std::byte* from, size_t bytes) {
  constexpr size_t n = sizeof(Block);
  size_t at = 0;
  for (; at + 4 * n <= bytes; at += 4 * n) {
    const Block a = load(from + at), b = load(from + at + n), c = load(from + at + 2 * n), d = load(from + at + 3 * n);
    store(to + at, a);
    store(to + at + n, b);
    store(to + at + 2 * n, c);
    store(to + at + 3 * n, d);
  }
  if (at < bytes) std::memcpy(to + at, from + at, bytes - at);
}

}  // namespace tandem
