/// Not installed. What a C library gives out by a create function and takes back by a destroy function, as a value that
/// can be moved.
#pragma once
#include <utility>

namespace tandem::cuda_impl {

/// Destroy's status is not looked at: descriptors are host memory, of which nothing can be done.
template <class T, auto Destroy>
class Handle {
 public:
  Handle() = default;
  Handle(Handle&& o) noexcept : h_(std::exchange(o.h_, T{})) {}
  Handle& operator=(Handle&& o) noexcept {
    std::swap(h_, o.h_);
    return *this;
  }
  ~Handle() {
    if (h_) Destroy(h_);
  }
  /// Where a create function writes.
  T* out() { return &h_; }
  operator T() const { return h_; }

 private:
  T h_{};
};

}  // namespace tandem::cuda_impl
