#include <tandem/parallel/communicator.h>

namespace tandem {

using Kind = Collective::Kind;

std::string to_string(ReduceOp op) {
  switch (op) {
    case ReduceOp::sum: return "sum";
    case ReduceOp::mean: return "mean";
    case ReduceOp::min: return "min";
    case ReduceOp::max: return "max";
  }
  return "?";
}

std::string to_string(Kind k) {
  switch (k) {
    case Kind::all_reduce: return "all_reduce";
    case Kind::reduce: return "reduce";
    case Kind::broadcast: return "broadcast";
    case Kind::all_gather: return "all_gather";
    case Kind::reduce_scatter: return "reduce_scatter";
    case Kind::all_to_all: return "all_to_all";
    case Kind::gather: return "gather";
    case Kind::scatter: return "scatter";
    case Kind::send: return "send";
    case Kind::recv: return "recv";
    case Kind::barrier: return "barrier";
  }
  return "?";
}

namespace {

Collective collective(Kind kind, Tensor out, Tensor in, int peer, const CollectiveOptions& o) {
  Collective c;
  c.kind = kind;
  c.out = std::move(out);
  c.in = std::move(in);
  c.peer = peer;
  c.label = o.label;
  c.timeout = o.timeout;
  c.patient = o.patient;
  return c;
}

Collective reducing(Kind kind, Tensor out, Tensor in, int peer, const ReduceOptions& o) {
  Collective c = collective(kind, std::move(out), std::move(in), peer, {.label = o.label, .timeout = o.timeout});
  c.op = o.op;
  c.premultiply = o.premultiply;
  return c;
}

// One of the tensors holds `size` parts, each like the other.
void require_parts(const char* op, const Tensor& whole, const Tensor& part, int size) {
  check<DtypeError>(whole.dtype() == part.dtype(), "[", op, "] one tensor is ", whole.dtype(), ", the other ",
                    part.dtype());
  check<ShapeError>(whole.numel() == part.numel() * size, "[", op, "] a tensor of shape ", whole.shape(),
                    " is not what ", size, " ranks have of shape ", part.shape());
}

void require_dense(const char* op, const Tensor& t, bool row_major) {
  check<ShapeError>(row_major ? t.is_contiguous() : t.is_dense_in_any_layout(), "[", op, "] a tensor of shape ",
                    t.shape(), " and strides ", t.strides(), " is not dense", row_major ? " in row-major order" : "",
                    ": contiguous() makes a copy that is");
}

}  // namespace

Collective Communicator::reduction(Kind kind, Tensor out, Tensor in, int root, const ReduceOptions& o) const {
  return reducing(kind, std::move(out), std::move(in), root, o);
}
Collective Communicator::broadcast_of(Tensor t, int root, const CollectiveOptions& o) const {
  return collective(Kind::broadcast, t, t, root, o);
}
Collective Communicator::barrier_of(const CollectiveOptions& o) const {
  return collective(Kind::barrier, {}, {}, 0, o);
}

void Communicator::all_gather(Tensor out, Tensor in, CollectiveOptions o) {
  run(collective(Kind::all_gather, std::move(out), std::move(in), 0, o));
}
void Communicator::reduce_scatter(Tensor out, Tensor in, ReduceOptions o) {
  run(reducing(Kind::reduce_scatter, std::move(out), std::move(in), 0, o));
}
void Communicator::all_to_all(Tensor out, Tensor in, CollectiveOptions o) {
  run(collective(Kind::all_to_all, std::move(out), std::move(in), 0, o));
}
void Communicator::gather(Tensor out, Tensor in, int root, CollectiveOptions o) {
  run(collective(Kind::gather, std::move(out), std::move(in), root, o));
}
void Communicator::scatter(Tensor out, Tensor in, int root, CollectiveOptions o) {
  run(collective(Kind::scatter, std::move(out), std::move(in), root, o));
}
void Communicator::send(Tensor t, int to, CollectiveOptions o) { run(collective(Kind::send, {}, std::move(t), to, o)); }
void Communicator::recv(Tensor t, int from, CollectiveOptions o) {
  run(collective(Kind::recv, std::move(t), {}, from, o));
}
Work Communicator::all_gather_async(Tensor out, Tensor in, CollectiveOptions o) {
  return start(collective(Kind::all_gather, std::move(out), std::move(in), 0, o));
}
Work Communicator::reduce_scatter_async(Tensor out, Tensor in, ReduceOptions o) {
  return start(reducing(Kind::reduce_scatter, std::move(out), std::move(in), 0, o));
}
Work Communicator::all_to_all_async(Tensor out, Tensor in, CollectiveOptions o) {
  return start(collective(Kind::all_to_all, std::move(out), std::move(in), 0, o));
}

void Communicator::run(const Collective& c) {
  require_valid(c);
  do_run(c);
}
Work Communicator::start(Collective c) {
  require_valid(c);
  return do_start(std::move(c));
}

void Communicator::require_valid(const Collective& c) const {
  const std::string name = to_string(c.kind);
  const char* op = name.c_str();
  if (c.kind == Kind::barrier) return;
  check(c.peer >= 0 && c.peer < size_, "[", op, "] rank ", c.peer, " of a group of ", size_);
  const bool root = c.peer == rank_;
  const bool reduces = c.kind == Kind::all_reduce || c.kind == Kind::reduce || c.kind == Kind::reduce_scatter;
  switch (c.kind) {
    case Kind::all_reduce:
    case Kind::reduce:
    case Kind::broadcast: require_dense(op, c.in, false); break;
    case Kind::all_gather: require_parts(op, c.out, c.in, size_); break;
    case Kind::reduce_scatter: require_parts(op, c.in, c.out, size_); break;
    case Kind::all_to_all:
      require_parts(op, c.in, c.out, 1);
      check(c.in.raw() != c.out.raw() || c.in.numel() == 0, "[", op, "] can't work in place");
      check<ShapeError>(c.in.dim() > 0 && c.in.size(0) == size_, "[", op, "] a tensor of shape ", c.in.shape(),
                        " has no part for each of ", size_, " ranks");
      break;
    case Kind::gather:
      if (root) require_parts(op, c.out, c.in, size_);
      break;
    case Kind::scatter:
      if (root) require_parts(op, c.in, c.out, size_);
      break;
    case Kind::send:
    case Kind::recv: check(!root, "[", op, "] rank ", rank_, " with itself"); break;
    case Kind::barrier: break;
  }
  if (c.kind != Kind::all_reduce && c.kind != Kind::reduce && c.kind != Kind::broadcast)
    for (const Tensor* t : {&c.in, &c.out})
      if (*t) require_dense(op, *t, true);
  if (!reduces) return;
  if (c.op == ReduceOp::mean)
    check<DtypeError>(is_floating(c.in.dtype()), "[", op, "] the mean of ", c.in.dtype(), ": only floating tensors");
  if (!c.premultiply) return;
  check<DtypeError>(is_floating(c.in.dtype()) && c.op == ReduceOp::sum, "[", op,
                    "] premultiply is for sums of floating tensors, not for the ", c.op, " of ", c.in.dtype());
  check<ShapeError>(c.premultiply.dtype() == Dtype::f64 && c.premultiply.numel() == 2, "[", op,
                    "] premultiply is an f64 tensor of 2, numerator and denominator, not ", c.premultiply.shape(), " ",
                    c.premultiply.dtype());
}

}  // namespace tandem
