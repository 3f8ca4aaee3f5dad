/// Not installed: what a library's plans are kept in. A plan is what the library has to work out once for given sizes,
/// types and options.
#pragma once
#include <array>
#include <cstddef>
#include <cstdint>
#include <unordered_map>

namespace tandem::detail {

/// Plans by the numbers that fix them. Bounded: programs whose shapes never repeat start over when it is full.
template <class Plan, size_t N>
class PlanCache {
 public:
  using Key = std::array<int64_t, N>;
  /// The plan for `key`, built from whatever make() returns where there is none yet.
  template <class Make>
  Plan& get(const Key& key, Make&& make) {
    auto it = plans_.find(key);
    if (it == plans_.end()) {
      if (plans_.size() >= kMostPlans) plans_.clear();
      it = plans_.emplace(key, make()).first;
    }
    return it->second;
  }

 private:
  static constexpr size_t kMostPlans = 512;
  struct Hash {
    size_t operator()(const Key& key) const {
      uint64_t h = 1469598103934665603ull;
      for (int64_t v : key) {
        h = (h ^ uint64_t(v)) * 0x9E3779B97F4A7C15ull;
        h ^= h >> 29;
      }
      return h;
    }
  };
  std::unordered_map<Key, Plan, Hash> plans_;
};

}  // namespace tandem::detail
