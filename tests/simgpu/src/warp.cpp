// What the threads of a warp do together: __syncwarp, shuffles, votes.
#include <algorithm>

#include "block.h"
#include "location.h"
#include "operation.h"

namespace simgpu {
namespace {

// The collective that this call takes part in; a new one where it is the first to come.
PendingCollective& join(Warp& warp, int lane, int lanes, Collective kind, unsigned mask, int width,
                        const Location& where) {
  if (!(mask >> lane & 1))
    fail("lane %d calls a warp function at %s with mask %08x, which leaves it out", lane, text(where).c_str(), mask);
  if (lanes < 32 && mask >> lanes)
    fail("the mask %08x at %s names lanes beyond the %d of this warp", mask, text(where).c_str(), lanes);
  for (int i = 0; i < warp.count; ++i) {
    PendingCollective& p = warp.pending[i];
    if (!(p.mask & mask)) continue;
    if (p.mask != mask || p.kind != kind || !same(*p.site, where))
      fail("warp divergence: lane %d is at %s with mask %08x, others at %s with mask %08x", lane, text(where).c_str(),
           mask, text(*p.site).c_str(), p.mask);
    return p;
  }
  if (warp.count == Warp::kMost)
    fail("more groups of lanes wait in a warp than the simulator keeps, at %s", text(where).c_str());
  PendingCollective& p = warp.pending[warp.count++];
  p.kind = kind;
  p.mask = mask;
  p.arrived = 0;
  p.width = width;
  p.site = &where;
  return p;
}

int source_lane(const PendingCollective& p, int lane) {
  const int begin = lane & ~(p.width - 1), end = begin + p.width, argument = p.argument[lane];
  int source = lane;
  switch (p.kind) {
    case Collective::shuffle: return begin + (argument & (p.width - 1));
    case Collective::shuffle_up: source = lane - argument; break;
    case Collective::shuffle_down: source = lane + argument; break;
    case Collective::shuffle_xor: source = lane ^ argument; break;
    default: return lane;
  }
  // Lanes beyond the group keep their own; only xor may reach into an earlier group.
  const bool inside = source < end && (source >= begin || (p.kind == Collective::shuffle_xor && source >= 0));
  return inside ? source : lane;
}

void complete(const PendingCollective& p, Thread* first) {
  uint64_t votes = 0;
  uint16_t epoch = 0;
  for (int i = 0; i < 32; ++i) {
    if (!(p.mask >> i & 1)) continue;
    votes |= uint64_t(p.value[i] != 0) << i;
    epoch = std::max(epoch, first[i].warp_epoch);
  }
  for (int i = 0; i < 32; ++i) {
    if (!(p.mask >> i & 1)) continue;
    const int source = source_lane(p, i);
    if (!(p.mask >> source & 1))
      fail("lane %d reads lane %d in the shuffle at %s, which is not in the mask %08x", i, source,
           text(*p.site).c_str(), p.mask);
    first[i].result = p.kind == Collective::ballot ? votes : p.value[source];
    // Shuffles and votes order no accesses to memory: __syncwarp does.
    if (p.kind == Collective::sync) first[i].warp_epoch = uint16_t(epoch + 1);
  }
}

}  // namespace

uint64_t warp_collective(Collective kind, unsigned mask, uint64_t value, int argument, int width,
                         const Location& where) {
  if (!in_kernel()) fail("a warp function outside a kernel, at %s", text(where).c_str());
  if (width <= 0 || width > 32 || (width & (width - 1)))
    fail("the width %d of the shuffle at %s is no power of two up to 32", width, text(where).c_str());
  const int index = block.thread_index(), lane = index % 32, begin = index - lane;
  const int end = std::min(begin + 32, block.size);
  Warp& warp = block.warps[size_t(index / 32)];
  // A warp of fewer lanes may name all 32 where the default does.
  if (kind == Collective::sync && mask == ~0u && end - begin < 32) mask = (1u << (end - begin)) - 1;
  PendingCollective& p = join(warp, lane, end - begin, kind, mask, width, where);
  p.value[lane] = value;
  p.argument[lane] = argument;
  p.arrived |= 1u << lane;
  if (p.arrived != mask) {
    block.wait(Thread::State::in_collective);
    return block.thread->result;
  }
  complete(p, &block.threads[size_t(begin)]);
  if (&p != &warp.pending[--warp.count]) p = warp.pending[warp.count];
  block.release(begin, mask);
  return block.thread->result;
}

}  // namespace simgpu
