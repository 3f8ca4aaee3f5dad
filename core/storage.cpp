#include <tandem/core/backend.h>
#include <tandem/core/storage.h>

namespace tandem {

Ref<Storage> Storage::make(size_t bytes, Device d) {
  Pool& p = tandem::pool(d);
  Ref<Storage> s(new Storage);
  s->device = d;
  s->bytes = bytes;
  if (bytes) {
    Block b = p.allocate(bytes);
    s->pool = &p;
    s->data = static_cast<std::byte*>(b.data);
    s->capacity = b.capacity;
  }
  return s;
}

Ref<Storage> Storage::window(Ref<Storage> base, size_t offset, size_t bytes) {
  check(offset + bytes <= base->bytes, "a window of ", bytes, " bytes at ", offset, " of ", base->bytes);
  Ref<Storage> s(new Storage);
  s->device = base->device;
  s->bytes = bytes;
  s->data = base->data + offset;
  s->base = std::move(base);
  return s;
}

Ref<Storage> Storage::foreign(void* data, size_t bytes, Device d, std::function<void(void*)> deleter) {
  require_device(d);
  Ref<Storage> s(new Storage);
  s->device = d;
  s->bytes = bytes;
  s->data = static_cast<std::byte*>(data);
  s->deleter = std::move(deleter);
  return s;
}

void Storage::release() {
  if (pool) pool->free({data, capacity});
  if (deleter) deleter(data);
  pool = nullptr;
  deleter = nullptr;
  base = {};
  data = nullptr;
}

void Storage::rebind(Ref<Storage> to, size_t offset, bool keep) {
  std::byte* there = to->data + offset;
  if (keep) copy_bytes(there, device, data, device, bytes);
  release();
  data = there;
  base = std::move(to);
}

void Storage::move_to(Device d) {
  if (device == d) return;
  const bool is_foreign = bytes && !pool && !base;  // nobody may have asked to be told of its end
  check(!is_foreign, "[to] foreign memory can't move from ", device, " to ", d, ": a clone() can");
  Ref<Storage> there = make(bytes, d);
  copy_bytes(there->data, d, data, device, bytes);
  std::swap(data, there->data);
  std::swap(pool, there->pool);
  std::swap(capacity, there->capacity);
  std::swap(base, there->base);
  std::swap(device, there->device);
}

void Storage::destroy(Storage* s) {
  if (detail::step_captures.load(std::memory_order_relaxed)) [[unlikely]]
    detail::note_end(*s);
  s->release();
  delete s;
}

void lay_out(std::span<Storage* const> parts, const std::vector<bool>& keep) {
  if (parts.empty()) return;
  size_t bytes = 0;
  bool already = true;
  for (Storage* p : parts) {
    if (!p->base || p->base != parts[0]->base || p->data != parts[0]->data + bytes) already = false;
    bytes += aligned(p->bytes);
  }
  if (already) return;
  Ref<Storage> block = Storage::make(bytes, parts[0]->device);
  zero_bytes(block->data, block->device, bytes);  // the gaps are read by passes over whole runs
  bytes = 0;
  for (size_t i = 0; i < parts.size(); ++i) {
    parts[i]->rebind(block, bytes, keep.empty() || keep[i]);
    bytes += aligned(parts[i]->bytes);
  }
}

}  // namespace tandem
