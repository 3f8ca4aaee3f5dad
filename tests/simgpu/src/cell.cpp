#include "cell.h"

#include <algorithm>
#include <cstdio>
#include <string>

#include "fail.h"

namespace simgpu {
namespace {

uint16_t warp_of(uint16_t thread) {
  return thread & Touch::kSeveralLanes ? uint16_t(thread & ~Touch::kSeveralLanes) : uint16_t(thread / 32);
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

}  // namespace

// A barrier stands between them, or they are of one thread.
bool ordered_within_launch(const Touch& before, const Touch& now) {
  if (before.block != now.block) return block.sees_all_blocks;
  if (before.epoch != now.epoch || before.thread == now.thread) return true;
  return before.thread != Touch::kSeveralWarps && warp_of(before.thread) == warp_of(now.thread) &&
         now.warp_epoch > before.warp_epoch;
}

// What one entry can't say is left out: of bytes that only one of them touched, the later.
void merge(Touch& t, const Touch& now) {
  if (t.atomic != now.atomic || !(t.bytes & now.bytes) || (t.block == now.block && t.epoch != now.epoch)) {
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

void fail_unordered(const Touch& before, const Touch& now, const CheckedAccess& a, const char* earlier) {
  const auto* p = reinterpret_cast<void*>(a.address);
  if (before.operation == now.operation)
    fail_at(a.return_address,
            "data race on %s memory: %s of %zu bytes at %p, after %s %s by %s with no barrier between",
            a.shared ? "shared" : "device", verb(a.kind), a.bytes, p, before.atomic ? "an atomic" : "a", earlier,
            who(before).c_str());
  fail_at(a.return_address,
          "missing wait: '%s' does a %s of %zu bytes at %p after a %s by '%s' on another stream, with no event between",
          operation_name(now.operation).c_str(), verb(a.kind), a.bytes, p, earlier,
          operation_name(before.operation).c_str());
}

}  // namespace simgpu
