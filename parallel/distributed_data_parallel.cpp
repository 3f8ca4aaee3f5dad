#include <tandem/parallel/distributed_data_parallel.h>
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
  nn::NamedTensors state = module_.named_parameters();
  for (auto& buffer : module_.named_buffers()) state.push_back(std::move(buffer));
  require_same_model(*communicator_, state);
  if (options_.init_sync) broadcast_tensors(*communicator_, state);
  reducer_ = std::make_unique<Reducer>(
      *communicator_, module_.named_parameters(),
      ReducerOptions{.limits = {.first_bucket_bytes = mebibytes("first_bucket_cap_mb", options_.first_bucket_cap_mb),
                                .bucket_bytes = mebibytes("bucket_cap_mb", options_.bucket_cap_mb)},
                     .find_unused_parameters = options_.find_unused_parameters,
                     .average_by_samples = options_.average == DistributedDataParallelOptions::Average::by_samples});
  if (options_.broadcast_buffers) buffers_ = module_.named_buffers();
  reducer_->set_callbacks({.buckets_started = [this] { start_buffers(); }, .finished = [this] { finish_step(); }});
}

DistributedDataParallel::~DistributedDataParallel() = default;

Tensor DistributedDataParallel::forward(const Tensor& x) {
  if (context().grad && x.dim() > 0) reducer_->add_forward_samples(x.size(0));
  return module_(x);
}

void DistributedDataParallel::samples(int64_t n) {
  check(n >= 0, "[samples] of ", n);
  reducer_->set_samples(n);
}

void DistributedDataParallel::accumulate(int k) {
  check(k >= 1, "[accumulate] over ", k, " backwards");
  reducer_->set_accumulate(k);
}

void DistributedDataParallel::register_comm_hook(std::unique_ptr<CommHook> hook) {
  check(hook != nullptr, "[register_comm_hook] no hook");
  reducer_->set_hook(std::move(hook));
}

std::vector<size_t> DistributedDataParallel::bucket_bytes() const { return reducer_->bucket_bytes(); }

// Buffers go after the step that changed them and not before the next forward: then they are alike on all ranks when a
// checkpoint is written, and nothing that a graph has saved changes under it.
// After the step that changed them and not before the next forward: then they are alike on all ranks when a checkpoint
// is written, and nothing that a graph has saved changes under it.
void DistributedDataParallel::start_buffers() {
  if (!module_.is_training()) return;
  for (auto& [name, t] : buffers_)
    buffer_works_.push_back(communicator_->broadcast_async(t.detach(), 0, {.label = name}));
}

void DistributedDataParallel::finish_step() {
  for (const Work& w : std::exchange(buffer_works_, {})) w.wait();
  ++synchronised_;
  if (options_.check_parameters_every && synchronised_ % options_.check_parameters_every == 0)
    require_same_values(*communicator_, module_.named_parameters());
}

DistributedDataParallel::NoSync::NoSync(DistributedDataParallel& ddp) : ddp_(ddp) { ddp_.reducer_->hold_back(true); }
DistributedDataParallel::NoSync::~NoSync() { ddp_.reducer_->hold_back(false); }

}  // namespace tandem
