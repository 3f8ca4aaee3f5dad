#include "apps/cifar10/run.h"

#include "apps/cifar10/testing.h"
#include "apps/models/models.h"

#include <charconv>
#include <cstdlib>

namespace tandem::cifar10 {
namespace {

std::unique_ptr<nn::Module> seeded_net(const TrainOptions& o, Device device) {
  manual_seed(o.seed);
  auto net = models::make(o.net);
  net->to(device);
  return net;
}

data::DataLoader::Options loader_options(const TrainOptions& o) {
  return {.batch_size = o.batch_size,
          .shuffle = true,
          .num_workers = o.workers,
          .seed = o.seed,
          .transform = train_transform(o.normalize)};
}

std::unique_ptr<nn::LRScheduler> make_schedule(const TrainOptions& o, nn::Optimizer& optimizer, int64_t batches) {
  if (o.schedule == "step")
    return std::make_unique<nn::StepLR>(optimizer, nn::StepLR::Options{.step_size = std::max(1, o.epochs / 3)});
  if (o.schedule == "cosine")
    return std::make_unique<nn::CosineAnnealingLR>(optimizer, nn::CosineAnnealingLR::Options{.T_max = o.epochs});
  if (o.schedule == "onecycle")
    return std::make_unique<nn::OneCycleLR>(
        optimizer, nn::OneCycleLR::Options{.max_lr = o.lr, .total_steps = int64_t(o.epochs) * batches});
  return nullptr;
}

// As many digits as bring a double back as it was.
std::string exactly(double v) {
  char buffer[32];
  return {buffer, std::to_chars(buffer, buffer + sizeof buffer, v).ptr};
}

// What a resumed run must have in common with the one that it continues, beside what describe() says.
std::map<std::string, std::string> fixed_options(const TrainOptions& o, int64_t train_images) {
  return {{"batch-size", std::to_string(o.batch_size)},
          {"lr", exactly(o.lr)},
          {"momentum", exactly(o.momentum)},
          {"weight-decay", exactly(o.weight_decay)},
          {"seed", std::to_string(o.seed)},
          {"schedule", o.schedule == "none" ? o.schedule : message(o.schedule, " over ", o.epochs, " epochs")},
          {"training images", std::to_string(train_images)}};
}

}  // namespace

Run::Run(const TrainOptions& o, const Datasets& sets)
    : options_(o),
      device_(parse_device(o.machine.device)),
      net_(seeded_net(o, device_)),
      optimizer_(net_->parameters(), {.lr = o.lr, .momentum = o.momentum, .weight_decay = o.weight_decay}),
      loader_(first(sets.train, o.limit_train), loader_options(o)),
      test_loader_(first(sets.test, o.limit_test), {.batch_size = 500, .transform = test_transform(o.normalize)}),
      schedule_(make_schedule(o, optimizer_, loader_.size())),
      schedule_by_step_(o.schedule == "onecycle"),
      loss_sum_(zeros({}, {.dtype = Dtype::f64, .device = device_})) {
  extra_ = describe(o.net, o.normalize, sets);
  extra_.merge(fixed_options(o, train_size()));
}

int64_t Run::batch() const { return (loader_.state().sampler.offset + options_.batch_size - 1) / options_.batch_size; }

int64_t Run::step() {
  auto batch = loader_.next();
  if (!batch) return 0;
  context().random.step = uint64_t(progress.global_step);
  context().random.call = 0;
  optimizer_.zero_grad();
  Tensor loss = cross_entropy((*net_)(batch->input.to(device_)), batch->target.to(device_));
  loss.backward();
  optimizer_.step();
  if (schedule_ && schedule_by_step_) schedule_->step();
  ++progress.global_step;
  loss_sum_.add_(loss.detach(), double(batch->count()));
  images_ += batch->count();
  return batch->count();
}

double Run::test() { return accuracy(*net_, test_loader_, device_).total(); }

void Run::end_epoch() {
  if (schedule_ && !schedule_by_step_) schedule_->step();
  ++progress.epoch;
  loss_sum_.zero_();
  images_ = 0;
}

nn::Checkpoint Run::state() {
  return {.model = net_.get(),
          .optimizer = &optimizer_,
          .scheduler = schedule_.get(),
          .generator = &default_generator(),
          .random = &context().random,
          .progress = &progress,
          .extra = &extra_};
}

void Run::note() {
  data::DataLoaderState s = loader_.state();
  progress.data = {s.seed, s.sampler.seed, s.sampler.epoch, s.sampler.offset};
  extra_["loss_sum"] = exactly(loss_sum_.item<double>());
  extra_["images"] = std::to_string(images_);
}

void Run::resume() {
  auto& d = progress.data;
  loader_.set_state({d.seed, {d.sampler_seed, d.sampler_epoch, d.sampler_offset}});
  loss_sum_.fill_(std::strtod(extra_["loss_sum"].c_str(), nullptr));
  images_ = std::strtoll(extra_["images"].c_str(), nullptr, 10);
}

void Run::require_same_options(const std::map<std::string, std::string>& checkpoint) const {
  std::string differences;
  for (auto& [name, now] : extra_)
    if (auto was = checkpoint.find(name); was != checkpoint.end() && was->second != now)
      differences += message("\n  ", name, ": ", was->second, " there, ", now, " now");
  check(differences.empty(), "the checkpoint is of a run with other options:", differences);
}

}  // namespace tandem::cifar10
