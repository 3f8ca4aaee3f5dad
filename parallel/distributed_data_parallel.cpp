#include <tandem/core/record.h>
#include <tandem/core/step_graph.h>
#include <tandem/nn/batch_norm.h>
#include <tandem/parallel/distributed_data_parallel.h>
#include <tandem/parallel/error_text.h>
#include <tandem/parallel/model_agreement.h>
#include <tandem/parallel/reducer.h>

namespace tandem {
namespace {

size_t mebibytes(const char* name, double mb) {
  check(mb >= 0 && mb < 1e6, "[DistributedDataParallel] ", name, " is ", mb);
  return size_t(mb * 1024 * 1024);
}

ProcessGroup& group_of(const DistributedDataParallelOptions& o) {
  return o.process_group ? *o.process_group : current_process_group();
}

}  // namespace

DistributedDataParallel::DistributedDataParallel(nn::Module& module, DistributedDataParallelOptions options)
    : module_(module), group_(group_of(options)), options_(options), communicator_(group_.new_communicator()) {
  require_same_model(*communicator_, state());
  if (options_.init_sync) broadcast_tensors(*communicator_, state(), 0);
  reducer_ = std::make_unique<Reducer>(
      *communicator_, module_.named_parameters(),
      ReducerOptions{.limits = {.first_bucket_bytes = mebibytes("first_bucket_cap_mb", options_.first_bucket_cap_mb),
                                .bucket_bytes = mebibytes("bucket_cap_mb", options_.bucket_cap_mb)},
                     .find_unused_parameters = options_.find_unused_parameters,
                     .average_by_samples = options_.average == DistributedDataParallelOptions::Average::by_samples});
  if (options_.broadcast_buffers) buffers_ = module_.named_buffers();
  reducer_->set_callbacks(
      {.buckets_started = [this](int from) { start_buffers(from); }, .finished = [this] { finish_step(); }});
}

DistributedDataParallel::~DistributedDataParallel() = default;

nn::NamedTensors DistributedDataParallel::state() const {
  nn::NamedTensors state = module_.named_parameters();
  for (auto& buffer : module_.named_buffers()) state.push_back(std::move(buffer));
  return state;
}

Tensor DistributedDataParallel::forward(const Tensor& x) {
  Tensor y = module_(x);
  if (!context().grad || x.dim() == 0 || !y) return y;
  auto graph = std::make_shared<char>();
  reducer_->add_forward(x.size(0), graph);
  return record("DistributedDataParallel", y.detach(), {y}, [graph](Tensor& gy, Targets t) {
    if (t[0]) t[0].give(std::move(gy));
  });
}

void DistributedDataParallel::samples(int64_t n) {
  check(n >= 0, "[samples] of ", n);
  reducer_->add_samples(n);
}

void DistributedDataParallel::accumulate(int k) {
  check(k >= 1, "[accumulate] over ", k, " backwards");
  reducer_->set_accumulate(k);
}

void DistributedDataParallel::register_comm_hook(std::unique_ptr<CommHook> hook) {
  check(hook != nullptr, "[register_comm_hook] no hook");
  reducer_->set_hook(std::move(hook));
}

void DistributedDataParallel::join(const std::function<void()>& loop, const JoinOptions& o) {
  check(!reducer_->joining(), "[join] within another one of this wrapper");
  check(!o.divide_by_initial_world_size || options_.average == Options::Average::by_rank,
        "[join] divide_by_initial_world_size is for averages by rank: those by samples count no ranks");
  for (auto& [name, m] : module_.named_modules()) {
    auto* norm = dynamic_cast<nn::BatchNorm2d*>(m);
    check(!norm || !norm->exchange, "[join] ", name,
          " has statistics of all ranks, for which all have to have batches");
  }
  struct Scope {
    Reducer& reducer;
    ~Scope() { reducer.end_join(); }
  } scope{*reducer_};
  reducer_->begin_join({.throw_on_early_termination = o.throw_on_early_termination,
                        .divide_by_initial_world_size = o.divide_by_initial_world_size});
  try {
    loop();
    while (reducer_->answer())
      if (o.after_backward) o.after_backward();
  } catch (...) {
    if (!reducer_->ended_early())
      communicator_->abort("its loop in join threw: " + error_text(std::current_exception()));
    throw;
  }
  if (reducer_->last_rank() >= 0) broadcast_tensors(*communicator_, state(), reducer_->last_rank());
}

std::vector<size_t> DistributedDataParallel::bucket_bytes() const { return reducer_->bucket_bytes(); }

// After the step that changed them and not before the next forward: then they are alike on all ranks when a checkpoint
// is written, and nothing that a graph has saved changes under it.
void DistributedDataParallel::start_buffers(int from) {
  if (!module_.is_training()) return;
  for (auto& [name, t] : buffers_)
    buffer_works_.push_back(communicator_->broadcast_async(t.detach(), from, {.label = name}));
}

void DistributedDataParallel::finish_step() {
  for (const Work& w : std::exchange(buffer_works_, {})) w.wait();
  if (StepCapture* capture = StepCapture::current())
    capture->after_launch([this] { count_step(); });
  else
    count_step();
}

void DistributedDataParallel::count_step() {
  ++synchronised_;
  if (reducer_->joining()) return;  // a rank that has run out need not step, and may differ until the end
  if (options_.check_parameters_every && synchronised_ % options_.check_parameters_every == 0)
    require_same_values(*communicator_, module_.named_parameters());
}

DistributedDataParallel::NoSync::NoSync(DistributedDataParallel& ddp) : ddp_(ddp) { ddp_.reducer_->hold_back(true); }
DistributedDataParallel::NoSync::~NoSync() { ddp_.reducer_->hold_back(false); }

}  // namespace tandem
