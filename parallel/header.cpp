#include <tandem/core/dtype.h>
#include <tandem/core/error.h>
#include <tandem/parallel/communicator.h>
#include <tandem/parallel/header.h>

namespace tandem {

bool same_collective(const Header& a, const Header& b) {
  return a.sequence == b.sequence && a.elements == b.elements && a.channel == b.channel && a.peer == b.peer &&
         a.kind == b.kind && a.dtype == b.dtype && a.op == b.op && a.weighted == b.weighted && a.layout == b.layout;
}

std::string to_string(const Header& h) {
  std::string s = message("number ", h.sequence, ", ", Collective::Kind(h.kind));
  if (Collective::Kind(h.kind) == Collective::Kind::barrier) return s;
  s += message(" of ", h.elements, " ", Dtype(h.dtype), h.weighted ? " weighted" : "");
  switch (Collective::Kind(h.kind)) {
    case Collective::Kind::all_reduce:
    case Collective::Kind::reduce_scatter: s += message(" (", ReduceOp(h.op), ")"); break;
    case Collective::Kind::reduce: s += message(" (", ReduceOp(h.op), ", root ", h.peer, ")"); break;
    case Collective::Kind::broadcast:
    case Collective::Kind::gather:
    case Collective::Kind::scatter: s += message(" (root ", h.peer, ")"); break;
    default: break;
  }
  return s;
}

}  // namespace tandem
