/// Memory with a version. A window is a Storage inside another one: `rebind` moves a storage into a window, and every
/// handle, view and saved tensor that uses it follows.
#pragma once
#include <tandem/core/pool.h>
#include <tandem/core/ref.h>

#include <functional>
#include <span>
#include <vector>

namespace tandem {

struct Storage;
namespace detail {
inline constinit TANDEM_API std::atomic<int> step_captures{0};  // running now; see core/step_graph.h
TANDEM_API void note_change(Storage& s);
TANDEM_API void note_end(Storage& s);
}  // namespace detail

struct TANDEM_API Storage {
  std::atomic<int> refs{0};
  std::atomic<uint32_t> version{0};  // counts changes of the values; saved tensors compare it
  Device device;
  std::byte* data = nullptr;
  size_t bytes = 0;
  size_t capacity = 0;                 // of the pool's block
  Pool* pool = nullptr;                // null for a window and for foreign memory
  Ref<Storage> base;                   // of a window
  std::function<void(void*)> deleter;  // of foreign memory

  void bump() {
    version.fetch_add(1, std::memory_order_relaxed);
    if (detail::step_captures.load(std::memory_order_relaxed)) [[unlikely]]
      detail::note_change(*this);
  }

  /// Fresh memory from the device's pool; contents undefined.
  static Ref<Storage> make(size_t bytes, Device d);
  static Ref<Storage> window(Ref<Storage> base, size_t offset, size_t bytes);
  static Ref<Storage> foreign(void* data, size_t bytes, Device d, std::function<void(void*)> deleter);
  /// Moves this storage's values into a window of `base` (which keeps them where `keep`); the version stays.
  void rebind(Ref<Storage> base, size_t offset, bool keep = true);
  /// Moves this storage to another device, values and all; a window leaves its block. Throws Error for foreign memory.
  void move_to(Device d);
  static void destroy(Storage* s);

 private:
  void release();
};

/// Puts these memories side by side in one new block, each at a multiple of kAlignment; handles and views follow.
/// Does nothing where they already lie so. `keep[i]` false: part i's values need no copy. Needs nobody to be using
/// them.
TANDEM_API void lay_out(std::span<Storage* const> parts, const std::vector<bool>& keep = {});

inline constexpr size_t kAlignment = 64;
inline constexpr size_t aligned(size_t bytes) { return (bytes + kAlignment - 1) / kAlignment * kAlignment; }

}  // namespace tandem
