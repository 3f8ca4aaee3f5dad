/// The objects behind a library's handles. A handle that was destroyed, or never created, is told from a live one.
#pragma once
#include <memory>
#include <unordered_map>

#include "operation.h"

namespace simgpu {

/// Of one kind: Handle is the library's opaque pointer. Under the runtime's lock.
template <class Handle, class Object>
class LiveObjects {
 public:
  explicit LiveObjects(const char* kind) : kind_(kind) {}

  Handle add(Object object) {
    auto owned = std::make_unique<Object>(std::move(object));
    const auto handle = reinterpret_cast<Handle>(owned.get());
    objects_.emplace(handle, std::move(owned));
    return handle;
  }

  /// nullptr for a null handle, which libraries refuse by a code; fails for one that isn't live, which they crash on.
  Object* find(Handle handle, const char* function) const {
    if (!handle) return nullptr;
    const auto found = objects_.find(handle);
    if (found == objects_.end())
      fail("%s: the %s %p was destroyed, or never created", function, kind_, static_cast<const void*>(handle));
    return found->second.get();
  }

  template <class F>
  void for_each(F&& f) const {
    for (const auto& [handle, object] : objects_) f(*object);
  }

  void remove(Handle handle, const char* function) {
    if (find(handle, function)) objects_.erase(handle);
  }

 private:
  const char* kind_;
  std::unordered_map<Handle, std::unique_ptr<Object>> objects_;
};

}  // namespace simgpu
