#include "cell.h"

#include <algorithm>
#include <cstdio>
#include <string>

#include "block.h"
#include "fail.h"
#include "operation.h"
#include "running.h"

namespace simgpu {
namespace {

Touch current(uint8_t bytes, AccessKind kind) {
  Touch t{running.number, 0, 0, 0, 0, bytes, kind == AccessKind::atomic};
  if (!block.thread) return t;
  t.block = block.index;
  t.thread = uint16_t(block.thread_index());
  t.epoch = block.epoch;
  t.warp_epoch = block.thread->warp_epoch;
  return t;
}

uint16_t warp_of(uint16_t thread) {
  return thread & Touch::kSeveralLanes ? uint16_t(thread & ~Touch::kSeveralLanes) : uint16_t(thread / 32);
}

// Within one launch: a barrier stands between them, or they are of one thread.
bool ordered(const Touch& before, const Touch& now) {
  if (before.block != now.block) return block.sees_all_blocks;
  if (before.epoch != now.epoch || before.thread == now.thread) return true;
  return before.thread != Touch::kSeveralWarps && warp_of(before.thread) == warp_of(now.thread) &&
         now.warp_epoch > before.warp_epoch;
}

// Notes a touch that doesn't replace the one before: other readers, or other atomic writers, touched the bytes as well.
// What one entry can't say is left out: of bytes that only one of them touched, the later.
void merge(Touch& t, const Touch& now) {
  if (t.operation != now.operation || t.atomic != now.atomic || !(t.bytes & now.bytes) ||
      (t.block == now.block && t.epoch != now.epoch)) {
    t = now;
    return;
  }
  if (t.block == now.block && t.thread == now.thread) {
    t.bytes |= now.bytes;
    t.warp_epoch = now.warp_epoch;
    return;
  }
  t.bytes &= now.bytes;
  if (t.block != now.block) {
    t.block = Touch::kSeveralBlocks;
  } else if (t.thread != Touch::kSeveralWarps && warp_of(t.thread) == warp_of(now.thread)) {
    t.thread = Touch::kSeveralLanes | warp_of(now.thread);
    t.warp_epoch = std::max(t.warp_epoch, now.warp_epoch);
  } else {
    t.thread = Touch::kSeveralWarps;
  }
}

const char* verb(AccessKind kind) {
  return kind == AccessKind::read ? "read" : kind == AccessKind::write ? "write" : "atomic update";
}

std::string who(const Touch& t) {
  char text[80];
  if (t.block == Touch::kSeveralBlocks) return "several blocks";
  if (t.thread == Touch::kSeveralWarps)
    std::snprintf(text, sizeof text, "several threads of block %u", t.block);
  else if (t.thread & Touch::kSeveralLanes)
    std::snprintf(text, sizeof text, "several threads of warp %u of block %u", warp_of(t.thread), t.block);
  else
    std::snprintf(text, sizeof text, "thread %u of block %u", t.thread, t.block);
  return text;
}

void check_order(const Touch& before, const Touch& now, const CheckedAccess& a, const char* earlier) {
  if (!before.operation || !(before.bytes & now.bytes)) return;
  if (before.operation == now.operation) {
    if ((before.atomic && now.atomic) || ordered(before, now)) return;
    fail_at(a.return_address,
            "data race on %s memory: %s of %zu bytes at %p, after %s %s by %s with no barrier between",
            a.shared ? "shared" : "device", verb(a.kind), a.bytes, reinterpret_cast<void*>(a.address),
            before.atomic ? "an atomic" : "a", earlier, who(before).c_str());
  }
  if (a.shared || ended_before_running(before.operation)) return;
  fail_at(a.return_address,
          "missing wait: '%s' does a %s of %zu bytes at %p after a %s by '%s' on another stream, with no event between",
          operation_name(now.operation).c_str(), verb(a.kind), a.bytes, reinterpret_cast<void*>(a.address), earlier,
          operation_name(before.operation).c_str());
}

}  // namespace

void touch(Cell& cell, uint8_t bytes, const CheckedAccess& access) {
  const Touch now = current(bytes, access.kind);
  check_order(cell.write, now, access, "write");
  if (access.kind == AccessKind::read) return merge(cell.read, now);
  check_order(cell.read, now, access, "read");
  // All writes before it are ordered, or atomic like it.
  const bool joins = now.atomic || (cell.write.thread == now.thread && cell.write.block == now.block);
  if (joins)
    merge(cell.write, now);
  else
    cell.write = now;
  cell.initialised |= bytes;
}

}  // namespace simgpu
