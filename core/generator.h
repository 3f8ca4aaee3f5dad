/// Random numbers, bit for bit those of PyTorch's CPU generator: MT19937 seeded with the seed's low 32 bits.
/// A float takes one draw, a double and an int64 two (high word first).
#pragma once
#include <tandem/core/tensor.h>

#include <optional>
#include <random>

namespace tandem {

class TANDEM_API Generator {
 public:
  explicit Generator(uint64_t seed = kDefaultSeed) { manual_seed(seed); }
  static constexpr uint64_t kDefaultSeed = 67280421310721ull;  // PyTorch's

  void manual_seed(uint64_t seed);
  uint64_t initial_seed() const { return seed_; }

  uint32_t random() { return static_cast<uint32_t>(engine_()); }
  uint64_t random64() {
    uint64_t high = random();
    return high << 32 | random();
  }
  /// [0, 1)
  float uniform_float() { return float(random() & 0xffffffu) * 5.9604644775390625e-8f; }
  double uniform_double() { return double(random64() & ((1ull << 53) - 1)) * 1.1102230246251565e-16; }
  /// Mean 0, deviation 1. Draws come in pairs: every second call returns what the one before kept.
  double normal_double();
  /// [low, high)
  int64_t randint(int64_t low, int64_t high);
  /// A permutation of 0..n-1 (torch.randperm).
  std::vector<int64_t> randperm(int64_t n);

  /// All of its state, to be given back to set_state. Throws Error where the text is no such state.
  std::string state() const;
  void set_state(const std::string& state);

 private:
  uint64_t seed_ = 0;
  std::mt19937 engine_;
  std::optional<double> next_normal_;  // the second of a pair
};

/// This thread's generator, made with PyTorch's default seed at its first use.
TANDEM_API Generator& default_generator();
/// Seeds this thread's generator and its counter-based draws (torch.manual_seed).
TANDEM_API void manual_seed(uint64_t seed);

/// Philox4x32-10 (Salmon et al. 2011): four 32-bit numbers for a key and a counter. What dropout and augmentation draw
/// from, so that their results depend on the keys alone.
TANDEM_HOST_DEVICE inline std::array<uint32_t, 4> philox(uint64_t key, std::array<uint32_t, 4> c) {
  uint32_t k0 = uint32_t(key), k1 = uint32_t(key >> 32);
  for (int round = 0; round < 10; ++round) {
    uint64_t a = uint64_t(0xD2511F53u) * c[0], b = uint64_t(0xCD9E8D57u) * c[2];
    c = {uint32_t(b >> 32) ^ c[1] ^ k0, uint32_t(b), uint32_t(a >> 32) ^ c[3] ^ k1, uint32_t(a)};
    k0 += 0x9E3779B9u;
    k1 += 0xBB67AE85u;
  }
  return c;
}

}  // namespace tandem
