#include <tandem/core/backend.h>
#include <tandem/core/step_graph.h>

#include <algorithm>
#include <array>
#include <map>
#include <mutex>
#include <optional>

namespace tandem {

// -- what a capture collects --------------------------------------------------------------------------------------

struct StepCapture::Impl {
  struct LeafState {
    Ref<Node> leaf;
    bool before, after;  // written, as it was when first noted and at the end of the step
    Leaf* get() const { return static_cast<Leaf*>(leaf.get()); }
  };

  std::mutex m;  // replicas' threads take part
  std::vector<std::function<bool()>> before;
  std::vector<std::function<void()>> after, after_launch;
  std::map<Storage*, uint32_t> changes;  // by how much each version moves
  std::vector<std::pair<Ref<Storage>, uint32_t>> lasting_changes;
  std::map<Leaf*, LeafState> leaves;
  std::map<int, Tensor> counters;  // by CUDA device
  RandomStep random;               // at the step's begin
  uint64_t calls = 0;              // of random ops in the step
};

namespace {

// A storage may end in any thread: all captures are asked.
struct Captures {
  std::mutex m;
  std::vector<StepCapture*> running;
};
Captures& captures() {
  static auto* c = new Captures;
  return *c;
}

}  // namespace

StepCapture::StepCapture() : impl_(std::make_unique<Impl>()) {
  std::lock_guard l(captures().m);
  captures().running.push_back(this);
  ++detail::step_captures;
}

StepCapture::~StepCapture() { stop(); }

void StepCapture::stop() {
  std::lock_guard l(captures().m);
  if (std::erase(captures().running, this)) --detail::step_captures;
}

void StepCapture::before_replay(std::function<bool()> f) {
  std::lock_guard l(impl_->m);
  impl_->before.push_back(std::move(f));
}

void StepCapture::after_replay(std::function<void()> f) {
  std::lock_guard l(impl_->m);
  impl_->after.push_back(std::move(f));
}

void StepCapture::after_launch(std::function<void()> f) {
  std::lock_guard l(impl_->m);
  impl_->after_launch.push_back(std::move(f));
}

Tensor StepCapture::random_counters(Device d) {
  std::lock_guard l(impl_->m);
  Tensor& t = impl_->counters[d.index];
  check(t.defined(), "a captured step draws random numbers on ", d, ", which is none of its devices");
  return t;
}

void StepCapture::note_leaf(Leaf& leaf) {
  std::lock_guard l(impl_->m);
  impl_->leaves.try_emplace(&leaf, Impl::LeafState{Ref<Node>(&leaf), leaf.written, false});
}

void StepCapture::note_change(Storage& s) {
  std::lock_guard l(impl_->m);
  ++impl_->changes[&s];
}

void StepCapture::note_end(Storage& s) {
  std::lock_guard l(impl_->m);
  impl_->changes.erase(&s);
}

void detail::note_change(Storage& s) {
  if (StepCapture* c = StepCapture::current()) c->note_change(s);
}

void detail::note_end(Storage& s) {
  std::lock_guard l(captures().m);
  for (StepCapture* c : captures().running) c->note_end(s);
}

void Leaf::note_in_capture() {
  if (StepCapture* c = StepCapture::current()) c->note_leaf(*this);
}

// -- the graph ----------------------------------------------------------------------------------------------------

namespace {

// What a captured step depends on and the program may change.
struct Signature {
  struct Input {
    const void* data;
    Dims shape, strides;
    Dtype dtype;
    bool operator==(const Input&) const = default;
  };
  bool grad, deterministic;
  int64_t mode;
  std::vector<Input> inputs;
  bool operator==(const Signature&) const = default;
};

}  // namespace

struct StepGraph::Impl {
  std::function<void()> step;
  Options options;
  std::vector<Stream*> streams;  // of our own, one per device; empty on the CPU
  int eager_left = 0;
  int failures = 0;  // captures in a row for which the pools were too small
  std::unique_ptr<StepCapture> capture;
  std::unique_ptr<Graph> graph;
  std::optional<Signature> signature;

  Signature signature_now() const {
    Signature s{.grad = context().grad,
                .deterministic = context().deterministic,
                .mode = options.mode ? options.mode() : 0,
                .inputs = {}};
    for (const Tensor* t : options.inputs)
      s.inputs.push_back(
          {t->defined() ? t->impl()->storage->data + t->impl()->offset * int64_t(size_of(t->dtype())) : nullptr,
           t->defined() ? t->shape() : Dims(), t->defined() ? t->strides() : Dims(),
           t->defined() ? t->dtype() : Dtype::f32});
    return s;
  }

  void forget(int eager_steps) {
    graph.reset();
    capture.reset();
    eager_left = eager_steps;
  }

  // The first stream starts after all others, or they after it.
  void gather() {
    for (size_t i = 1; i < streams.size(); ++i) streams[0]->wait(*streams[i]);
  }
  void spread() {
    for (size_t i = 1; i < streams.size(); ++i) streams[i]->wait(*streams[0]);
  }

  void run_eagerly() {
    signature = signature_now();
    step();
  }

  // Runs the step once while its streams are recorded. Throws what the step throws, the host's state put back as far as
  // the next backward would be misled by it.
  void record() {
    const RandomStep random = context().random;
    std::unique_ptr<StepCapture> fresh(new StepCapture);
    StepCapture::Impl& c = *fresh->impl_;
    for (Stream* s : streams) c.counters[s->device.index] = zeros({2}, {.dtype = Dtype::i64, .device = s->device});
    c.random = random;
    gather();
    Backend& b = backend(streams[0]->device);
    b.begin_capture(*streams[0]);
    std::unique_ptr<Graph> recorded;
    std::exception_ptr error;  // the first
    auto attempt = [&](auto&& f) {
      try {
        f();
      } catch (...) {
        if (!error) error = std::current_exception();
      }
    };
    context().capture = fresh.get();
    attempt([&] {
      spread();
      step();
    });
    context().capture = nullptr;
    attempt([&] { gather(); });
    attempt([&] { recorded = b.end_capture(*streams[0]); });  // also after an error: a stream left in capture is lost
    fresh->stop();
    if (error) {
      for (auto& [_, l] : c.leaves) l.get()->written = l.before;
      context().random = random;
      std::rethrow_exception(error);
    }
    for (auto& [s, n] : c.changes) c.lasting_changes.emplace_back(Ref<Storage>(s), n);
    for (auto& [_, l] : c.leaves) l.after = l.get()->written;
    c.calls = context().random.call - random.call;
    graph = std::move(recorded);
    capture = std::move(fresh);
  }

  // Whether a gradient is added to or written over was decided at the capture.
  bool gradients_fit() const {
    const auto& leaves = capture->impl_->leaves;
    return std::all_of(leaves.begin(), leaves.end(),
                       [](auto& l) { return l.second.get()->written == l.second.before; });
  }

  // What the step reads from device memory, as it is on the host by now. False: the step has to be captured again.
  bool refresh(const RandomStep& random) {
    const uint64_t ahead = random.call - capture->impl_->random.call;
    const std::array<int64_t, 2> counters{int64_t(random.step), int64_t(ahead)};
    if (capture->impl_->calls)  // else nobody reads them
      for (auto& [_, t] : capture->impl_->counters)
        copy_bytes(t.raw(), t.device(), counters.data(), cpu(), sizeof counters);
    for (auto& f : capture->impl_->before)
      if (!f()) return false;
    return true;
  }

  void launch() {
    gather();
    graph->launch(*streams[0]);
    spread();
    for (auto& f : capture->impl_->after_launch) f();
  }

  // The host's state after a replay is what it would be after the step.
  void catch_up() {
    StepCapture::Impl& c = *capture->impl_;
    for (auto& [s, n] : c.lasting_changes) s->version.fetch_add(n, std::memory_order_relaxed);
    for (auto& [_, l] : c.leaves) l.get()->written = l.after;
    for (auto& f : c.after) f();
    context().random.call += c.calls;
  }
};

StepGraph::StepGraph(std::function<void()> step, Options options) : impl_(std::make_unique<Impl>()) {
  check(!options.devices.empty(), "[StepGraph] no device");
  check(options.warm_up >= 1, "[StepGraph] warm_up is ", options.warm_up,
        ": at least one step runs eagerly, since the first one makes what later ones use");
  for (Device d : options.devices) {
    require_device(d);
    check(d.kind == options.devices[0].kind, "[StepGraph] works on ", options.devices[0], " and ", d,
          ": one kind of device is captured at a time");
    if (!d.is_cpu()) impl_->streams.push_back(&backend(d).new_stream(d.index));
  }
  impl_->step = std::move(step);
  impl_->eager_left = options.warm_up;
  impl_->options = std::move(options);
}

StepGraph::~StepGraph() = default;

void StepGraph::operator()() {
  Impl& m = *impl_;
  if (m.streams.empty()) return m.step();
  check(!StepCapture::current(), "[StepGraph] is run inside the step that another one captures");
  std::vector<std::unique_ptr<StreamGuard>> on_ours;
  for (Stream* s : m.streams) on_ours.push_back(std::make_unique<StreamGuard>(*s));

  if (m.graph && m.signature_now() != m.signature) {
    check(m.options.on_change == OnChange::recapture,
          "[StepGraph] the step's inputs or mode are other ones than when it was captured");
    m.forget(1);
  }
  const RandomStep random = context().random;
  const bool replay = m.graph != nullptr;
  if (replay && !(m.gradients_fit() && m.refresh(random))) m.forget(1);
  if (!m.graph && m.eager_left > 0) {
    m.run_eagerly();
    --m.eager_left;
    return;
  }
  if (m.graph) {
    m.launch();
    m.catch_up();
    return;
  }
  try {
    if (m.signature_now() != m.signature) throw NeedsMemory("the step's inputs or mode changed while it warmed up");
    m.record();
  } catch (const NeedsMemory&) {
    if (++m.failures > 4) throw;
    return m.run_eagerly();
  } catch (...) {
    m.forget(m.options.warm_up);
    throw;
  }
  m.failures = 0;
  m.refresh(random);
  m.launch();
}

bool StepGraph::is_captured() const { return impl_->graph != nullptr; }
size_t StepGraph::nodes() const { return impl_->graph ? impl_->graph->nodes() : 0; }
void StepGraph::reset() { impl_->forget(1); }

}  // namespace tandem
