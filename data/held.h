/// How loaders and options take an object of the user's without asking who owns it.
#pragma once
#include <concepts>
#include <memory>
#include <type_traits>
#include <utility>

namespace tandem::data {

/// A dataset or sampler that was handed over: an lvalue is referred to (it must outlive the holder), an rvalue is moved
/// in, a shared_ptr is shared.
template <class Base>
class Held {
 public:
  Held() = default;
  template <class D>
  requires std::derived_from<std::remove_cvref_t<D>, Base> && std::convertible_to < std::remove_reference_t<D>
  *, Base* > Held(D&& object) {  // NOLINT: implicit, so that options read `.sampler = sampler`
    if constexpr (std::is_lvalue_reference_v<D>)
      p_ = std::shared_ptr<Base>(std::shared_ptr<Base>(), std::addressof(object));
    else
      p_ = std::make_shared<std::remove_cvref_t<D>>(std::move(object));
  }
  template <class D>
  requires std::convertible_to<D*, Base*> Held(std::shared_ptr<D> object)
      : p_(std::move(object)) {}  // NOLINT: implicit, as above

  explicit operator bool() const { return p_ != nullptr; }
  Base& operator*() const { return *p_; }
  Base* operator->() const { return p_.get(); }

 private:
  std::shared_ptr<Base> p_;
};

}  // namespace tandem::data
