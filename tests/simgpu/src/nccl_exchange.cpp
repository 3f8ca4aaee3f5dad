// Collectives, chunk by chunk: each rank puts its values in its window; each reduces a slice of what lies in all
// windows; each takes the slices, or what it wants of the windows.
#include <algorithm>
#include <cstring>

#include "nccl_operation.h"
#include "nccl_types.h"

namespace simgpu {

Exchange::Exchange(const CommunicatorCall& call, Communicator& c)
    : call_(call),
      c_(c),
      signature_{.sequence = ++c.collectives,
                 .count = call.count,
                 .kind = int32_t(call.kind),
                 .type = int32_t(call.type),
                 .op = std::min<int32_t>(call.op, ncclNumOps),  // a scaled sum has another number on each rank
                 .root = call.root} {
  // Each of a reduce-scatter's blocks has a part of the window.
  const size_t parts = call.kind == CallKind::reduce_scatter ? size_t(c.ranks) : 1;
  chunk_elements_ = kWindowBytes / (bytes_of(call.type) * parts);
}

Step Exchange::step() {
  switch (phase_) {
    case Phase::post: return post();
    case Phase::reduce: return reduce();
    case Phase::gather: break;
  }
  return gather();
}

Step Exchange::post() {
  // The windows were those of the chunk before the last: all must have taken what they wanted of it.
  if (c_.chunks >= 2 && !c_.all_reached(&RankRecord::taken, c_.chunks - 1)) return Step::blocked;
  chunk_ = c_.chunks++;
  length_ = std::min(chunk_elements_, call_.count - offset_);
  const size_t element = bytes_of(call_.type), bytes = length_ * element;
  const auto* from = static_cast<const char*>(call_.from);
  char* window = c_.segment->window(c_.rank, chunk_);
  if (call_.kind == CallKind::reduce_scatter) {
    for (size_t block = 0; block < size_t(c_.ranks); ++block)
      contribute(call_.reduction, call_.type, window + block * bytes, from + (block * call_.count + offset_) * element,
                 length_, c_.ranks);
  } else if (call_.kind != CallKind::broadcast || c_.rank == call_.root) {
    contribute(call_.reduction, call_.type, window, from + offset_ * element, length_, c_.ranks);
  }
  c_.own().signature[chunk_ % 2] = signature_;
  c_.own().posted.store(chunk_ + 1, std::memory_order_release);
  phase_ = Phase::reduce;
  return Step::again;
}

Step Exchange::reduce() {
  if (!c_.all_reached(&RankRecord::posted, chunk_ + 1)) return Step::blocked;
  check_signatures();
  const size_t element = bytes_of(call_.type), bytes = length_ * element;
  auto* to = static_cast<char*>(call_.to);
  // A ring begins with the rank after the one that ends with the whole sum.
  const auto windows = [&](size_t offset) {
    std::vector<const void*> all;
    for (int i = 1; i <= c_.ranks; ++i) all.push_back(c_.segment->window((c_.rank + i) % c_.ranks, chunk_) + offset);
    return all;
  };
  switch (call_.kind) {
    case CallKind::broadcast:
      if (static_cast<const char*>(call_.from) != to || c_.rank != call_.root)
        std::memcpy(to + offset_ * element, c_.segment->window(call_.root, chunk_), bytes);
      end_chunk();
      break;
    case CallKind::all_gather:
      for (int r = 0; r < c_.ranks; ++r)
        std::memcpy(to + (size_t(r) * call_.count + offset_) * element, c_.segment->window(r, chunk_), bytes);
      end_chunk();
      break;
    case CallKind::reduce_scatter:
      simgpu::reduce(call_.reduction, call_.type, to + offset_ * element, windows(size_t(c_.rank) * bytes), length_);
      end_chunk();
      break;
    default: {
      const size_t begin = slice(size_t(c_.rank)), end = slice(size_t(c_.rank) + 1);
      simgpu::reduce(call_.reduction, call_.type, c_.segment->result_window(c_.rank, chunk_), windows(begin * element),
                     end - begin);
      c_.own().reduced.store(chunk_ + 1, std::memory_order_release);
      phase_ = Phase::gather;
    }
  }
  return offset_ == call_.count ? Step::done : Step::again;
}

Step Exchange::gather() {
  if (!c_.all_reached(&RankRecord::reduced, chunk_ + 1)) return Step::blocked;
  const size_t element = bytes_of(call_.type);
  if (call_.kind == CallKind::all_reduce || c_.rank == call_.root)
    for (size_t r = 0; r < size_t(c_.ranks); ++r)
      std::memcpy(static_cast<char*>(call_.to) + (offset_ + slice(r)) * element,
                  c_.segment->result_window(int(r), chunk_), (slice(r + 1) - slice(r)) * element);
  end_chunk();
  return offset_ == call_.count ? Step::done : Step::again;
}

void Exchange::end_chunk() {
  offset_ += length_;
  c_.own().reduced.store(chunk_ + 1, std::memory_order_release);
  c_.own().taken.store(chunk_ + 1, std::memory_order_release);
  phase_ = Phase::post;
}

std::string Exchange::describe(const CollectiveSignature& s, int rank) const {
  char text[256];
  const char* ops[] = {"sum", "product", "maximum", "minimum", "average"};
  std::snprintf(text, sizeof text, "rank %d: %s of %lu x %s, %s, root %d", rank, name_of(CallKind(s.kind)), s.count,
                name_of(ncclDataType_t(s.type)), s.op < ncclNumOps ? ops[s.op] : "scaled sum", s.root);
  return text;
}

void Exchange::check_signatures() const {
  for (int r = 0; r < c_.ranks; ++r) {
    const CollectiveSignature& other = c_.record(r).signature[chunk_ % 2];
    if (other.count == signature_.count && other.kind == signature_.kind && other.type == signature_.type &&
        other.op == signature_.op && other.root == signature_.root && other.sequence == signature_.sequence)
      continue;
    fail("ranks call different collectives as number %lu of their communicator: %s; %s", signature_.sequence,
         describe(signature_, c_.rank).c_str(), describe(other, r).c_str());
  }
}

}  // namespace simgpu
