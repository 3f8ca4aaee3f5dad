/// Who runs next. Work is queued, and runs inside the calls that wait or ask, in an order that the seed chooses among
/// what streams and events allow.
#pragma once
#include <functional>

#include "stream.h"

namespace simgpu {

/// Runs queued work until done() holds. `target` is the stream that the wait is about; nullptr: all. Under the
/// runtime's lock, held once: it is released while a peer is awaited.
void drain(const std::function<bool()>& done, const Stream* target, const char* what);

/// Runs all that is queued on the device's streams; the host has waited for it.
void wait_for_device(int device, const char* what);
void wait_for_stream(const Stream& s, const char* what);

/// A query was made: at least one item runs, else loops of queries would never end.
void advance(const Stream* target);

/// Some seeds run work as soon as it is queued.
void work_was_queued(const Item& item);

}  // namespace simgpu
