/// Not installed: what the kernels computed by oneDNN share. The library's own header is included by sources alone;
/// here its types are declared ahead.
///
/// Plans (a primitive and the memory objects it is called with) belong to a thread and are made for a number of
/// threads; pointers are lent to them for a call. Scratch comes from the pool, where it is counted and reused.
#pragma once
#include <tandem/core/tensor.h>

#include <array>
#include <unordered_map>

namespace dnnl {
struct engine;
struct memory;
struct primitive_attr;
struct stream;
}  // namespace dnnl

namespace tandem::detail {

dnnl::engine& onednn_engine();
/// The calling thread's.
dnnl::stream& onednn_stream();

/// A thread's plans by the numbers that fix them. Bounded: programs whose shapes never repeat start over when it is
/// full.
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

/// Memory from the pool that `m` uses for as long as this lives.
class LentScratch {
 public:
  LentScratch(dnnl::memory& m, Device d);

 private:
  Tensor memory_;
};

/// Makes `m` stand for this memory until the next call.
void lend(dnnl::memory& m, const void* p);

/// What every primitive is made with: full f32 precision whatever the environment asks for, scratch of ours, and (where
/// `add`) adding to the destination.
dnnl::primitive_attr onednn_attributes(bool add = false);

/// Throws the library's exception that is being handled as an Error naming the op; others go on as they are.
[[noreturn]] void rethrow_onednn_error();

/// f(), with the library's exceptions as ours.
template <class F>
decltype(auto) with_onednn_errors(F&& f) {
  try {
    return f();
  } catch (...) {
    rethrow_onednn_error();
  }
}

}  // namespace tandem::detail
