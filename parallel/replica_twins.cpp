#include <tandem/core/copy.h>
#include <tandem/parallel/replica_twins.h>

namespace tandem {
namespace {

// Says of an original's leaf that a wrapper holds it. Gradients reach it through the wrapper's own closure.
struct Claim final : GradObserver {
  void begin(std::span<Leaf* const>) override {}
  void ready(Leaf*) override {}
  void done(std::exception_ptr) override {}
};
Claim claim;

}  // namespace

ReplicaTwins::ReplicaTwins(const nn::Module& module, std::vector<const Replica*> replicas)
    : replicas_(std::move(replicas)), twins_(replicas_.size()) {
  const Device home = replicas_[0]->device;
  auto take = [&](const nn::NamedTensors& from, std::vector<Tensor>& to) {
    for (auto& [name, t] : from) {
      check<DeviceError>(t.device() == home, "[DataParallel] ", name, " is on ", t.device(), ", the first replica on ",
                         home, ": move the module before wrapping it");
      check(!t.impl()->twins && (!t.leaf() || !t.leaf()->observer),
            "[DataParallel] another data-parallel wrapper holds ", name);
      to.push_back(t);
    }
  };
  take(module.named_parameters(), parameters_);
  take(module.named_buffers(), buffers_);
  leaves_.resize(parameters_.size());
  try {
    for (size_t r = 0; r < replicas_.size(); ++r)
      for (size_t i = 0; i < originals(); ++i) {
        twins_[r].push_back(make_twin(i, r));
        set_twin(original(i), *replicas_[r], twins_[r].back().tensor);
      }
    update();
  } catch (...) {
    clear();
    throw;
  }
}

ReplicaTwins::~ReplicaTwins() {
  if (!abandoned_) clear();
}

void ReplicaTwins::clear() {
  for (size_t i = 0; i < originals(); ++i)
    for (auto* r : replicas_) clear_twin(original(i), *r);
  for (size_t i = 0; i < leaves_.size(); ++i)
    if (leaf(i)) leaf(i)->observer = nullptr;
}

ReplicaTwins::Twin ReplicaTwins::make_twin(size_t i, size_t replica) const {
  const Tensor& t = original(i);
  const Device d = replicas_[replica]->device;
  if (replica == 0) return {.tensor = t.detach()};
  if (i >= parameters_.size() || !d.is_cpu() || !t.device().is_cpu())
    return {.tensor = empty(t.shape(), {.dtype = t.dtype(), .device = d, .layout = t.layout()})};
  const Ref<Storage>& s = t.storage();
  Ref<Storage> shared = Storage::foreign(s->data, s->bytes, d, {});
  return {.tensor = Tensor(std::move(shared), t.shape(), t.strides(), t.dtype(), t.impl()->offset), .shares = true};
}

void ReplicaTwins::update() {
  for (size_t i = 0; i < parameters_.size(); ++i)
    if (parameters_[i].node() != leaves_[i]) follow_leaf(i);
  follow_memory();
  for (size_t r = 1; r < replicas_.size(); ++r)
    for (size_t i = 0; i < originals(); ++i) copy_values(twins_[r][i], original(i));
}

void ReplicaTwins::follow_leaf(size_t i) {
  if (Leaf* was = leaf(i)) was->observer = nullptr;
  leaves_[i] = {};
  Leaf* now = parameters_[i].leaf();
  if (now) {
    check(!now->observer, "[DataParallel] another data-parallel wrapper holds parameter ", i, " of shape ",
          parameters_[i].shape());
    now->observer = &claim;
    leaves_[i] = parameters_[i].node();
  }
  for (auto& of_replica : twins_) of_replica[i].tensor.set_requires_grad(false).set_requires_grad(now != nullptr);
  ++generation_;
}

void ReplicaTwins::follow_memory() {
  for (size_t r = 1; r < replicas_.size(); ++r)
    for (size_t i = 0; i < parameters_.size(); ++i)
      if (twins_[r][i].shares) twins_[r][i].tensor.storage()->data = parameters_[i].storage()->data;
}

size_t ReplicaTwins::shared_bytes(size_t replica) const {
  size_t bytes = 0;
  for (auto& t : twins_[replica])
    if (t.shares) bytes += size_t(t.tensor.numel()) * size_of(t.tensor.dtype());
  return bytes;
}

void ReplicaTwins::copy_values(Twin& twin, const Tensor& original) {
  Storage& s = *twin.tensor.storage();
  const uint32_t now = original.storage()->version.load(std::memory_order_relaxed);
  if (twin.copied && twin.original_version == now && twin.version == s.version.load(std::memory_order_relaxed)) return;
  if (!twin.shares) copy_into({twin.tensor, 0}, original);
  s.bump();  // what an earlier forward saved of it has changed
  twin.copied = true;
  twin.original_version = now;
  twin.version = s.version.load(std::memory_order_relaxed);
}

}  // namespace tandem
