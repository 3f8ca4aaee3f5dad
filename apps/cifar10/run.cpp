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

data::DataLoader::Options loader_options(const TrainOptions& o, data::BatchShareSampler& share, bool on_device) {
  return {.batch_size = share.share(),
          .sampler = share,
          .num_workers = on_device ? 0 : o.workers,  // there is nothing left for them to do
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

data::DataLoader::Options test_options(const TrainOptions& o, const Team& team, int64_t images) {
  data::DataLoader::Options d{.batch_size = 500, .transform = test_transform(o.normalize)};
  if (team.size() > 1)
    d.sampler = data::DistributedSampler(
        images, {.num_replicas = team.size(), .rank = team.rank(), .shuffle = false, .pad = false});
  return d;
}

int64_t size_of_first(const std::shared_ptr<const data::Dataset>& d, int limit) { return first(d, limit)->size(); }

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

Run::Run(const TrainOptions& o, const Datasets& sets, const Team& team)
    : options_(o),
      team_(team),
      net_(seeded_net(o, team.device)),
      optimizer_(net_->parameters(), {.lr = o.lr, .momentum = o.momentum, .weight_decay = o.weight_decay}),
      share_(data::RandomSampler(size_of_first(sets.train, o.limit_train), {.seed = o.seed}),
             {.batch_size = o.batch_size, .num_replicas = team.size(), .rank = team.rank()}),
      loader_(first(data::on_device(sets.train, team.device), o.limit_train),
              loader_options(o, share_, !team.device.is_cpu())),
      test_loader_(first(data::on_device(sets.test, team.device), o.limit_test),
                   test_options(o, team, size_of_first(sets.test, o.limit_test))),
      schedule_(make_schedule(o, optimizer_, share_.batches())),
      schedule_by_step_(o.schedule == "onecycle"),
      loss_sum_(zeros({}, {.dtype = Dtype::f64, .device = team.device})) {
  if (team_.group) ddp_.emplace(*net_, DistributedDataParallel::Options{.process_group = team_.group});
  if (!team_.replicas.empty()) dp_.emplace(*net_, team_.replicas);
  if (o.step_graph && !team_.device.is_cpu())
    graph_.emplace([this] { train(share_.share()); },
                   StepGraph::Options{.devices = dp_ ? team_.replicas : std::vector{team_.device}});
  extra_ = describe(o.net, o.normalize, sets);
  extra_.merge(fixed_options(o, train_size()));
}

double Run::loss() const { return images_ ? team_.sum({loss_sum_.item<double>()})[0] / double(images_) : 0; }

// The mean loss of these images, with its gradients.
Tensor Run::backward(const Tensor& images, const Tensor& labels, int64_t samples) {
  if (dp_) return dp_->step(images, labels, [](const Tensor& out, const Tensor& y) { return cross_entropy(out, y); });
  if (ddp_) ddp_->samples(samples);
  Tensor loss = cross_entropy(ddp_ ? (*ddp_)(images) : (*net_)(images), labels);
  loss.backward();
  return loss.detach();
}

void Run::train(int64_t samples) {
  optimizer_.zero_grad();
  if (samples > 0) {
    auto b = loader_.next();
    loss_sum_.add_(backward(b->input.to(team_.device), b->target.to(team_.device), samples), double(samples));
  } else {  // the last batch has fewer images than there are ranks: this one takes part with an image that counts
            // nothing
    backward(zeros({1, 3, 32, 32}, {.device = team_.device}), zeros({1}, {.dtype = Dtype::i64, .device = team_.device}),
             0);
  }
  optimizer_.step();
}

int64_t Run::step() {
  if (batch() == batches()) {
    loader_.next();  // it sees the end, and begins the next epoch
    return 0;
  }
  const int64_t size = share_.batch_size(batch()), mine = share_.share_of(size);
  context().random.step = uint64_t(progress.global_step);
  context().random.call = 0;
  context().random.row_offset = share_.before(size);
  if (graph_ && mine == share_.share())
    (*graph_)();
  else
    train(mine);
  if (schedule_ && schedule_by_step_) schedule_->step();
  ++progress.global_step;
  own_images_ += mine;
  images_ += size;
  return size;
}

double Run::test() {
  const Accuracy a = accuracy(*net_, test_loader_, team_.device);
  std::vector<double> counts{0, 0};
  for (int64_t n : a.right) counts[0] += double(n);
  for (int64_t n : a.all) counts[1] += double(n);
  counts = team_.sum(counts);
  return counts[1] > 0 ? counts[0] / counts[1] : 0;
}

void Run::end_epoch() {
  if (schedule_ && !schedule_by_step_) schedule_->step();
  ++progress.epoch;
  loss_sum_.zero_();
  own_images_ = images_ = 0;
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

// Positions and sums are those of all ranks together, so that any number of them can go on.
void Run::note() {
  data::DataLoaderState s = loader_.state();
  progress.data = {s.seed, s.sampler.seed, s.sampler.epoch, images_};
  context().random.row_offset = 0;
  extra_["loss_sum"] = exactly(team_.sum({loss_sum_.item<double>()})[0]);
  extra_["images"] = std::to_string(images_);
}

void Run::resume() {
  auto& d = progress.data;
  images_ = d.sampler_offset;
  own_images_ = images_ / options_.batch_size * share_.share();  // checkpoints are written after whole batches
  loader_.set_state({d.seed, {d.sampler_seed, d.sampler_epoch, own_images_}});
  loss_sum_.fill_(team_.leads() ? std::strtod(extra_["loss_sum"].c_str(), nullptr) : 0);
}

void Run::require_same_options(const std::map<std::string, std::string>& checkpoint) const {
  std::string differences;
  for (auto& [name, now] : extra_)
    if (auto was = checkpoint.find(name); was != checkpoint.end() && was->second != now)
      differences += message("\n  ", name, ": ", was->second, " there, ", now, " now");
  check(differences.empty(), "the checkpoint is of a run with other options:", differences);
}

}  // namespace tandem::cifar10
