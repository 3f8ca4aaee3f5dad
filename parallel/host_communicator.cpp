#include <tandem/core/copy.h>
#include <tandem/core/timeline.h>
#include <tandem/parallel/error_text.h>
#include <tandem/parallel/host_communicator.h>

#include <cstring>
#include <exception>

namespace tandem {

using Kind = Collective::Kind;

namespace {

std::span<std::byte> bytes_of(const Tensor& t) {
  return {static_cast<std::byte*>(t.raw()), size_t(t.numel()) * size_of(t.dtype())};
}

// The r-th of `size` equal parts.
std::span<std::byte> part_of(const Tensor& t, int size, int r) {
  auto all = bytes_of(t);
  const size_t n = all.size() / size_t(size);
  return all.subspan(n * size_t(r), n);
}

void copy(std::span<std::byte> to, std::span<const std::byte> from) {
  if (!from.empty() && to.data() != from.data()) std::memcpy(to.data(), from.data(), from.size());
}

// But for its number. A factor that a device has is left to it where the values are.
Header header_of(const Collective& c, const Channel& channel, int size, bool values) {
  Header h;
  h.channel = channel.id;
  h.kind = uint8_t(c.kind);
  if (c.kind == Kind::barrier) return h;
  const bool parts_in = c.kind == Kind::reduce_scatter || c.kind == Kind::all_to_all;
  const Tensor& part = c.kind == Kind::scatter || parts_in ? c.out : c.in ? c.in : c.out;
  h.elements = uint64_t(part.numel()) / (c.kind == Kind::all_to_all ? uint64_t(size) : 1);
  h.dtype = uint8_t(part.dtype());
  h.op = uint8_t(c.op);
  switch (c.kind) {
    case Kind::reduce:
    case Kind::broadcast:
    case Kind::gather:
    case Kind::scatter:
    case Kind::send:
    case Kind::recv: h.peer = c.peer; break;
    default: break;
  }
  if (c.kind == Kind::all_reduce || c.kind == Kind::reduce || c.kind == Kind::broadcast)
    h.layout = uint8_t(part.layout());
  if (c.op == ReduceOp::mean) {
    h.weighted = 1;
    h.weight = 1.0 / size;
  } else if (c.premultiply) {
    h.weighted = 1;
    if (!values && !c.premultiply.device().is_cpu()) return h;
    const auto factor = c.premultiply.to_vector<double>();
    h.skip = factor[0] == 0;
    h.weight = h.skip ? 0 : factor[0] / factor[1];
  }
  return h;
}

}  // namespace

HostCommunicator::HostCommunicator(std::shared_ptr<Membership> membership, std::shared_ptr<Channel> channel,
                                   std::unique_ptr<Transport> transport)
    : Communicator(channel->rank, int(channel->members.size())),
      membership_(std::move(membership)),
      channel_(std::move(channel)),
      transport_(std::move(transport)) {}

HostCommunicator::~HostCommunicator() {
  bool unfinished;
  {
    std::lock_guard lock(mutex_);
    stop_ = true;
    unfinished = running_ || !tasks_.empty();
    changed_.notify_all();
  }
  if (unfinished) {
    const int me = membership_->rank();
    const std::string why =
        message("[", channel_->name, "] rank ", me, " has ended a communicator while collectives were under way");
    if (std::uncaught_exceptions() > 0)
      membership_->fail(me, why);  // the group follows, and tells the others the reason
    else
      membership_->report(me, why);
  }
  if (lane_.joinable()) lane_.join();
}

void HostCommunicator::abort(const std::string& why) {
  const int me = membership_->rank();
  membership_->report(me, message("rank ", me, " has ended the group: ", why));
}

void HostCommunicator::do_run(const Collective& c) {
  run_in_turn([&] { execute(c); });
}

Work HostCommunicator::do_start(Collective c) {
  // What the caller has queued on a device comes first there.
  const Tensor& t = c.in ? c.in : c.out;
  const Device d = t ? t.device() : cpu();
  Stream* stream = d.is_cpu() ? nullptr : context().stream[d.index];
  return start_in_turn([this, c = std::move(c), d, stream] {
    if (!d.is_cpu()) context().stream[d.index] = stream;
    execute(c);
  });
}

void HostCommunicator::run_agreed(const Collective& c, const std::function<void(const Header&)>& carry_out) {
  run_in_turn([&] { carry_out(execute(c, Extent::agreement)); });
}

Work HostCommunicator::start_agreed(Collective c, std::function<void(const Collective&, const Header&)> carry_out) {
  return start_in_turn(
      [this, c = std::move(c), carry_out = std::move(carry_out)] { carry_out(c, execute(c, Extent::agreement)); });
}

void HostCommunicator::run_in_turn(const std::function<void()>& f) {
  {
    std::unique_lock lock(mutex_);
    if (!running_ && tasks_.empty())
      running_ = true;  // the lane has nothing to do, and stays out of the way
    else {
      lock.unlock();
      start_in_turn(f).wait();
      return;
    }
  }
  std::exception_ptr error;
  try {
    f();
  } catch (...) {
    error = std::current_exception();
  }
  {
    std::lock_guard lock(mutex_);
    running_ = false;
    changed_.notify_all();
  }
  if (error) std::rethrow_exception(error);
}

Work HostCommunicator::start_in_turn(std::function<void()> f) {
  auto state = std::make_shared<WorkState>();
  std::lock_guard lock(mutex_);
  if (!lane_.joinable()) lane_ = std::thread([this] { lane(); });
  tasks_.push_back({std::move(f), state});
  changed_.notify_all();
  return Work(state);
}

void HostCommunicator::lane() {
  std::unique_lock lock(mutex_);
  for (;;) {
    changed_.wait(lock, [&] { return stop_ || (!running_ && !tasks_.empty()); });
    if (running_) return;  // stopped while the caller's own collective runs: it finishes what it started
    if (tasks_.empty()) return;
    Task task = std::move(tasks_.front());
    tasks_.pop_front();
    running_ = true;
    lock.unlock();
    std::exception_ptr error;
    try {
      task.run();
    } catch (...) {
      error = std::current_exception();
    }
    task.run = {};  // its tensors are the caller's again before the caller is told
    lock.lock();
    running_ = false;  // before the caller is told, too, who may then end the communicator
    lock.unlock();
    task.state->finish(error);
    lock.lock();
  }
}

Header HostCommunicator::execute(const Collective& c, Extent extent) {
  Header h = header_of(c, *channel_, size(), extent == Extent::everything);
  const bool pair = c.kind == Kind::send || c.kind == Kind::recv;
  h.sequence = pair ? channel_->begin(c.peer, c.kind == Kind::send) : channel_->begin();
  channel_->record.begin(h, c.label);
  try {
    carry_out(c, h, extent);
  } catch (const CommError& e) {
    end(false);
    membership_->tell_failure(*channel_, e);
    throw;
  } catch (...) {
    // An error of this rank alone must not leave the others waiting.
    end(false);
    const int me = membership_->rank();
    membership_->report(me, message("[", h, "] failed on rank ", me, ": ", error_text(std::current_exception())));
    throw;
  }
  end(true);
  return h;
}

void HostCommunicator::end(bool done) {
  channel_->record.end(done);
  channel_->end(done);
}

void HostCommunicator::carry_out(const Collective& c, const Header& h, Extent extent) {
  Wait wait(*membership_, *channel_, h, c.label, c.timeout.count() ? c.timeout : membership_->timeout(), c.patient);
  membership_->look_for_absent(*channel_);
  wait.check();
  if (extent == Extent::agreement) return compare(c, h, wait);
  const std::string name = to_string(c.kind);
  const Tensor& whole = c.in ? c.in : c.out;
  const size_t bytes = whole ? size_t(whole.numel()) * size_of(whole.dtype()) : 0;
  TimelineSpan span(TimelineEvent::Kind::collective, name, c.label, membership_->rank(), bytes);

  // The transport sees host memory alone.
  Collective host = c;
  for (Tensor* t : {&host.in, &host.out})
    if (*t && !t->device().is_cpu()) *t = copy_of(*t, {.dtype = t->dtype(), .device = cpu(), .layout = t->layout()});
  if (c.in && c.out && c.in.is_same(c.out)) host.out = host.in;
  move(host, h, wait);
  if (c.out && !host.out.is_same(c.out)) copy_into({c.out, 0}, host.out);
  if (c.out && (c.kind != Kind::reduce || rank() == c.peer)) c.out.storage()->bump();
}

// The headers go round, and no values.
void HostCommunicator::compare(const Collective& c, const Header& h, Wait& wait) {
  if (!transport_) return;
  if (c.kind == Kind::send || c.kind == Kind::recv)
    transport_->transfer(h, c.peer, {}, {}, wait);
  else
    transport_->exchange(h, std::vector<Part>(size_t(size())), wait);
}

void HostCommunicator::move(const Collective& c, const Header& h, Wait& wait) {
  switch (c.kind) {
    case Kind::all_reduce: all_reduce(h, c.in, c.op, wait); break;
    case Kind::reduce:
    case Kind::reduce_scatter: reduce(c, h, wait); break;
    case Kind::send: transport_->transfer(h, c.peer, bytes_of(c.in), {}, wait); break;
    case Kind::recv: transport_->transfer(h, c.peer, {}, bytes_of(c.out), wait); break;
    default: exchange(c, h, wait);
  }
}

void HostCommunicator::all_reduce(const Header& h, Tensor t, ReduceOp op, Wait& wait) {
  const Reduction reduction{t.dtype(), op};
  const auto data = bytes_of(t);
  if (transport_) {
    transport_->all_reduce(h, data, reduction, wait);
  } else {
    const Source alone{data.data(), h.weight, h.weighted != 0, h.skip != 0};
    reduce_slices(reduction, {&alone, 1}, data.data(), h.elements);
  }
}

// Everyone's values to where they are reduced, there in the order of the ranks.
void HostCommunicator::reduce(const Collective& c, const Header& h, Wait& wait) {
  const Reduction reduction{c.in.dtype(), c.op};
  const bool scattered = c.kind == Kind::reduce_scatter;
  const bool here = scattered || rank() == c.peer;
  const auto n = size_t(size());
  // A factor is applied by whose values they are.
  Tensor mine = c.in;
  if (h.weighted) {
    mine = empty_like(c.in);
    const Source own{bytes_of(c.in).data(), h.weight, true, h.skip != 0};
    reduce_slices(reduction, {&own, 1}, bytes_of(mine).data(), size_t(mine.numel()));
  }
  const size_t bytes = bytes_of(mine).size() / (scattered ? n : 1);
  Tensor others;  // [size, ...], where values are reduced
  if (here) others = empty({int64_t(n), int64_t(bytes)}, {.dtype = Dtype::u8, .device = cpu()});
  std::vector<Part> parts(n);
  for (int r = 0; r < size(); ++r) {
    if (r == rank()) continue;
    if (scattered) parts[size_t(r)].send = part_of(mine, size(), r);
    if (!scattered && r == c.peer) parts[size_t(r)].send = bytes_of(mine);
    if (here) parts[size_t(r)].recv = part_of(others, size(), r);
  }
  if (transport_) transport_->exchange(h, parts, wait);
  if (!here) return;
  std::vector<Source> sources(n);
  for (int r = 0; r < size(); ++r)
    sources[size_t(r)].values = r != rank() ? part_of(others, size(), r).data()
                                : scattered ? part_of(mine, size(), r).data()
                                            : bytes_of(mine).data();
  reduce_slices(reduction, sources, bytes_of(c.out).data(), h.elements);
}

void HostCommunicator::exchange(const Collective& c, const Header& h, Wait& wait) {
  const auto n = size_t(size());
  std::vector<Part> parts(n);
  const bool root = rank() == c.peer;
  for (int r = 0; r < size(); ++r) {
    Part p;
    switch (c.kind) {
      case Kind::broadcast:
        if (root) p.send = bytes_of(c.in);
        if (!root && r == c.peer) p.recv = bytes_of(c.in);
        break;
      case Kind::all_gather:
        p.send = bytes_of(c.in);
        p.recv = part_of(c.out, size(), r);
        break;
      case Kind::all_to_all:
        p.send = part_of(c.in, size(), r);
        p.recv = part_of(c.out, size(), r);
        break;
      case Kind::gather:
        if (r == c.peer) p.send = bytes_of(c.in);
        if (root) p.recv = part_of(c.out, size(), r);
        break;
      case Kind::scatter:
        if (root) p.send = part_of(c.in, size(), r);
        if (r == c.peer) p.recv = bytes_of(c.out);
        break;
      default: break;  // a barrier moves nothing
    }
    if (r == rank()) {
      if (p.send.size() == p.recv.size()) copy(p.recv, p.send);
      p = {};
    }
    parts[size_t(r)] = p;
  }
  if (transport_) transport_->exchange(h, parts, wait);
}

}  // namespace tandem
