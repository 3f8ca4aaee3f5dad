#include <tandem/core/dtype.h>
#include <tandem/core/error.h>
#include <tandem/parallel/communicator.h>
#include <tandem/parallel/header.h>

namespace tandem {

namespace {

using Kind = Collective::Kind;

// A send and a recv are the two halves of one transfer.
uint8_t other_half(uint8_t kind) {
  return Kind(kind) == Kind::send ? uint8_t(Kind::recv) : Kind(kind) == Kind::recv ? uint8_t(Kind::send) : kind;
}

}  // namespace

bool same_collective(const Header& a, const Header& b) {
  const bool transfer = Kind(a.kind) == Kind::send || Kind(a.kind) == Kind::recv;
  return a.sequence == b.sequence && a.elements == b.elements && a.channel == b.channel &&
         (transfer || a.peer == b.peer) && a.kind == other_half(b.kind) && a.dtype == b.dtype && a.op == b.op &&
         a.weighted == b.weighted && a.layout == b.layout;
}

std::string to_string(const Header& h) {
  const auto kind = Kind(h.kind);
  std::string s = message("number ", h.sequence, ", ", kind);
  if (kind == Kind::barrier) return s;
  s += message(" of ", h.elements, " ", Dtype(h.dtype), h.weighted ? " weighted" : "");
  switch (kind) {
    case Kind::all_reduce:
    case Kind::reduce_scatter: s += message(" (", ReduceOp(h.op), ")"); break;
    case Kind::reduce: s += message(" (", ReduceOp(h.op), ", root ", h.peer, ")"); break;
    case Kind::broadcast:
    case Kind::gather:
    case Kind::scatter: s += message(" (root ", h.peer, ")"); break;
    case Kind::send: s += message(" (to ", h.peer, ")"); break;
    case Kind::recv: s += message(" (from ", h.peer, ")"); break;
    default: break;
  }
  return s;
}

}  // namespace tandem
