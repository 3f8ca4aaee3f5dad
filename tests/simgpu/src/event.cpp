#include "event.h"

#include <unordered_map>

#include "operation.h"

namespace simgpu {
namespace {

std::unordered_map<const void*, std::shared_ptr<Event>>& events() {
  static auto& m = *new std::unordered_map<const void*, std::shared_ptr<Event>>;
  return m;
}

}  // namespace

std::shared_ptr<Event> create_event(int device, bool timed) {
  auto e = std::make_shared<Event>();
  e->device = device;
  e->timed = timed;
  events().emplace(e.get(), e);
  return e;
}

std::shared_ptr<Event> event_of(cudaEvent_t handle) {
  const auto found = events().find(handle);
  if (found == events().end()) fail("%p is no event, or one that was destroyed", static_cast<void*>(handle));
  return found->second;
}

void destroy_event(cudaEvent_t handle) {
  event_of(handle);
  events().erase(handle);  // work that waits for it keeps it
}

}  // namespace simgpu
