#include "tests/nn/support.h"
#include "tests/support/temporary_folder.h"

#include <tandem/core/copy.h>
#include <tandem/nn/adam.h>
#include <tandem/nn/batch_norm.h>
#include <tandem/nn/checkpoint.h>
#include <tandem/nn/conv2d.h>
#include <tandem/nn/cosine_annealing_lr.h>
#include <tandem/nn/dropout.h>
#include <tandem/nn/linear.h>
#include <tandem/nn/one_cycle_lr.h>
#include <tandem/nn/reduce_lr_on_plateau.h>
#include <tandem/nn/safetensors.h>
#include <tandem/nn/sgd.h>
#include <tandem/nn/step_lr.h>
#include <tandem/ops/cross_entropy.h>
#include <tandem/ops/random.h>
#include <tandem/ops/relu.h>
#include <tandem/ops/view.h>

#include <doctest/doctest.h>

#include <cmath>
#include <functional>
#include <memory>

using namespace tandem;
using namespace tandem::test;
using nn::load_checkpoint;
using nn::save_checkpoint;

namespace {

struct Net : nn::Module {
  nn::Conv2d conv{2, 3, {.kernel = 3, .padding = 1}};
  nn::BatchNorm2d bn{3};
  nn::Dropout dropout{0.4};
  nn::Linear fc{3 * 4 * 4, 5};
  Net() {
    add("conv", conv);
    add("bn", bn);
    add("dropout", dropout);
    add("fc", fc);
  }
  Tensor forward(const Tensor& x) override { return fc(dropout(relu(bn(conv(x)))).flatten(1)); }
};

using MakeOptimizer = std::function<std::unique_ptr<nn::Optimizer>(std::vector<Tensor>)>;
using MakeScheduler = std::function<std::unique_ptr<nn::LRScheduler>(nn::Optimizer&)>;

std::unique_ptr<nn::Optimizer> sgd(std::vector<Tensor> p) {
  return std::make_unique<nn::SGD>(
      std::move(p), nn::SGD::Options{.lr = 0.05, .momentum = 0.9, .weight_decay = 1e-3, .nesterov = true});
}
std::unique_ptr<nn::Optimizer> adam(std::vector<Tensor> p) {
  return std::make_unique<nn::Adam>(std::move(p), nn::Adam::Options{.lr = 0.01, .amsgrad = true});
}
std::unique_ptr<nn::LRScheduler> step_lr(nn::Optimizer& o) {
  return std::make_unique<nn::StepLR>(o, nn::StepLR::Options{.step_size = 2, .gamma = 0.5});
}
std::unique_ptr<nn::LRScheduler> cosine(nn::Optimizer& o) {
  return std::make_unique<nn::CosineAnnealingLR>(o, nn::CosineAnnealingLR::Options{.T_max = 10});
}
std::unique_ptr<nn::LRScheduler> one_cycle(nn::Optimizer& o) {
  return std::make_unique<nn::OneCycleLR>(o, nn::OneCycleLR::Options{.max_lr = 0.1, .total_steps = 20});
}

// A whole run: its batches come from the thread's generator, its dropout from the counters.
struct Trainer {
  bool seeded_;  // before the net draws its weights
  Net net;
  std::unique_ptr<nn::Optimizer> optimizer;
  std::unique_ptr<nn::LRScheduler> scheduler;
  nn::Progress progress;
  std::map<std::string, std::string> extra;

  Trainer(const MakeOptimizer& o, const MakeScheduler& s, uint64_t seed)
      : seeded_((manual_seed(seed), true)), optimizer(o(net.parameters())), scheduler(s(*optimizer)) {}
  nn::Checkpoint parts() {
    return {.model = &net,
            .optimizer = optimizer.get(),
            .scheduler = scheduler.get(),
            .generator = &default_generator(),
            .random = &context().random,
            .progress = &progress,
            .extra = &extra};
  }
  void run(int steps) {
    for (int i = 0; i < steps; ++i) {
      context().random.step = uint64_t(progress.global_step);
      optimizer->zero_grad();
      cross_entropy(net(randn({6, 2, 4, 4})), randint(5, {6})).backward();
      optimizer->step();
      scheduler->step();
      ++progress.global_step;
      progress.data.sampler_offset += 6;
    }
  }
  // Everything there is, as bytes.
  std::string bytes(const TemporaryFolder& folder) {
    save_checkpoint(folder / "bytes", parts());
    return read_text(folder / "bytes");
  }
};

}  // namespace

TEST_CASE("a run that is interrupted and resumed ends in the straight run's file") {
  TemporaryFolder folder;
  const std::pair<MakeOptimizer, MakeScheduler> kinds[] = {
      {sgd, step_lr}, {adam, cosine}, {sgd, one_cycle}, {adam, one_cycle}};
  for (auto& [optimizer, scheduler] : kinds) {
    Trainer straight(optimizer, scheduler, 1);
    straight.run(3);
    straight.progress.best_metric = 0.1 + 0.2;
    straight.extra["note"] = "any text\n";
    save_checkpoint(folder / "half", straight.parts());
    straight.run(4);
    std::string want = straight.bytes(folder);

    Trainer resumed(optimizer, scheduler, 2);
    resumed.run(1);
    CHECK(load_checkpoint(folder / "half", resumed.parts()).clean());
    CHECK(resumed.bytes(folder) == read_text(folder / "half"));
    resumed.run(4);
    CHECK(resumed.bytes(folder) == want);
    CHECK(resumed.extra == straight.extra);
    CHECK(resumed.progress == straight.progress);
  }
}

TEST_CASE("a checkpoint has the model under bare keys, and its progress in the header") {
  TemporaryFolder folder;
  Trainer t(sgd, step_lr, 1);
  t.run(1);
  t.progress = {.epoch = 3, .global_step = 1200, .best_metric = 0.125, .data = {.seed = ~0ull, .sampler_offset = 7}};
  save_checkpoint(folder / "f", t.parts());
  SafetensorsFile file = load(folder / "f");
  auto own = t.net.state_dict();
  for (size_t i = 0; i < own.size(); ++i) {
    CHECK(file.tensors[i].first == own[i].first);
    CHECK(same_bits(file.tensors[i].second, own[i].second));
  }
  for (size_t i = own.size(); i < file.tensors.size(); ++i) CHECK(file.tensors[i].first.starts_with("tandem."));
  CHECK(file.metadata.at("format") == "pt");
  CHECK(nn::load_progress(folder / "f") == t.progress);
  save(folder / "plain", own);
  CHECK_FALSE(nn::load_progress(folder / "plain"));
}

TEST_CASE("a file of PyTorch's loads, a wrapper's prefixes included") {
  TemporaryFolder folder;
  Trainer t(sgd, step_lr, 1), other(sgd, step_lr, 2);
  NamedTensors wrapped;
  for (auto& [key, x] : t.net.state_dict()) wrapped.emplace_back("module." + key, x);
  for (const NamedTensors& tensors : {t.net.state_dict(), wrapped}) {
    save(folder / "f", tensors, {{"format", "pt"}});
    Net net;
    CHECK(load_checkpoint(folder / "f", {.model = &net}).clean());
    CHECK(same_bits(net.fc.weight, t.net.fc.weight));
    CHECK(same_bits(net.bn.running_var, t.net.bn.running_var));
  }
  std::string before = other.bytes(folder);
  std::string error = error_of([&] { load_checkpoint(folder / "f", other.parts()); });
  CHECK(says(error, "missing: tandem.optimizer, tandem.scheduler, tandem.generator, tandem.random, tandem.progress"));
  CHECK(other.bytes(folder) == before);
  nn::LoadReport report = load_checkpoint(folder / "f", other.parts(), {.strict = false});
  CHECK(report.missing.size() == 5);
  CHECK(same_bits(other.net.fc.weight, t.net.fc.weight));
}

TEST_CASE("what does not fit is listed at once, and nothing is changed") {
  TemporaryFolder folder;
  Trainer t(sgd, step_lr, 1);
  t.run(2);
  save_checkpoint(folder / "f", t.parts());

  struct Other : Net {
    nn::Linear more{2, 2};
    Other() { add("more", more); }
  } other;
  other.fc.weight = zeros({7, 48}, {.requires_grad = true});
  std::string error = error_of([&] { load_checkpoint(folder / "f", {.model = &other}); });
  CHECK(says(error, folder / "f"));
  CHECK(says(error, "missing: more.weight, more.bias"));
  CHECK(says(error, "misshapen: fc.weight [5,48], not [7,48]"));
  CHECK(other.fc.weight.to_vector() == std::vector<float>(7 * 48, 0));
  nn::LoadReport report = load_checkpoint(folder / "f", {.model = &other}, {.strict = false});
  CHECK(report.missing.size() == 2);
  CHECK(same_bits(other.fc.bias, t.net.fc.bias));
}

TEST_CASE("an optimizer or a schedule of another kind is an error, and the model that fits stays as it is too") {
  TemporaryFolder folder;
  Trainer t(sgd, step_lr, 1), wrong(adam, step_lr, 2), right(sgd, step_lr, 2), cycle(sgd, one_cycle, 2);
  t.run(2);
  wrong.run(1);
  right.run(1);
  cycle.run(1);
  save_checkpoint(folder / "f", t.parts());
  std::string before = wrong.bytes(folder);
  std::string error = error_of([&] { load_checkpoint(folder / "f", wrong.parts()); });
  CHECK(says(error, "[load_checkpoint] " + (folder / "f") + ": [load_state_dict] this state does not fit Adam"));
  CHECK(wrong.bytes(folder) == before);

  before = cycle.bytes(folder);
  error = error_of([&] { load_checkpoint(folder / "f", cycle.parts()); });
  CHECK(says(error,
             (folder / "f") + ": [load_state_dict] this is the state of a StepLR, and the schedule is a OneCycleLR"));
  CHECK(cycle.bytes(folder) == before);

  before = right.bytes(folder);
  right.optimizer->param_groups()[0].lr = 0.3;  // by hand: not what the schedule would set
  SafetensorsFile file = load(folder / "f");
  for (auto& [key, x] : file.tensors)
    if (key == "tandem.scheduler.last_epoch") key = "tandem.scheduler.something";
  save(folder / "other", file.tensors, file.metadata);
  error = error_of([&] { load_checkpoint(folder / "other", right.parts()); });
  CHECK(says(error, "missing: last_epoch\n  unexpected: something"));
  for (auto& [key, x] : file.tensors)
    if (key == "tandem.scheduler.something") {
      key = "tandem.scheduler.last_epoch";
      x = full({}, NAN);
    }
  save(folder / "other", file.tensors, file.metadata);
  CHECK(says(error_of([&] { load_checkpoint(folder / "other", right.parts()); }), "last_epoch is nan"));
  CHECK(right.optimizer->param_groups()[0].lr == 0.3);
  right.optimizer->param_groups()[0].lr = 0.05;
  CHECK(right.bytes(folder) == before);
}

TEST_CASE("a plateau schedule goes on where it was") {
  TemporaryFolder folder;
  Trainer t(sgd, step_lr, 1), other(sgd, step_lr, 2);
  nn::ReduceLROnPlateau a(*t.optimizer, {.patience = 1}), b(*other.optimizer, {.patience = 1});
  a.step(0.5);
  a.step(0.6);
  save_checkpoint(folder / "f", {.optimizer = t.optimizer.get(), .plateau = &a});
  load_checkpoint(folder / "f", {.optimizer = other.optimizer.get(), .plateau = &b});
  CHECK(b.state_dict() == a.state_dict());
  b.step(0.7);
  CHECK(b.get_last_lr()[0] == doctest::Approx(0.005));
  CHECK(load_checkpoint(folder / "f", {.scheduler = t.scheduler.get()}, {.strict = false}).missing.size() == 1);
}

TEST_CASE("a damaged checkpoint is an error that changes nothing") {
  TemporaryFolder folder;
  Trainer t(adam, cosine, 1), other(adam, cosine, 2);
  t.run(2);
  other.run(1);
  save_checkpoint(folder / "f", t.parts());
  const std::string good = read_text(folder / "f"), before = other.bytes(folder);
  for (size_t n = 0; n < good.size(); n += good.size() / 50) {
    write_text(folder / "cut", good.substr(0, n));
    CHECK_THROWS_AS(load_checkpoint(folder / "cut", other.parts()), IoError);
  }
  SafetensorsFile file = load(folder / "f");
  const std::pair<std::string, std::string> bad_texts[] = {{"tandem.generator", "1 2 3"},
                                                           {"tandem.generator", ""},
                                                           {"tandem.random", "1 2"},
                                                           {"tandem.random", "1 2 3 4"},
                                                           {"tandem.random", "1 2 -3"},
                                                           {"tandem.progress", "1  2"},
                                                           {"tandem.progress", "1 99999999999999999999"},
                                                           {"tandem.best_metric", "high"},
                                                           {"tandem.data", ""},
                                                           {"tandem.version", "2"}};
  for (auto& [key, text] : bad_texts) {
    Metadata m = file.metadata;
    m[key] = text;
    save(folder / "bad", file.tensors, m);
    CAPTURE(key);
    CAPTURE(text);
    CHECK(says(error_of([&] { load_checkpoint(folder / "bad", other.parts()); }), folder / "bad"));
    CHECK_THROWS_AS(load_checkpoint(folder / "bad", other.parts()), IoError);
  }
  for (auto& [key, x] : file.tensors)
    if (key == "tandem.scheduler.last_epoch") x = zeros({2});
  save(folder / "bad", file.tensors, file.metadata);
  CHECK_THROWS_AS(load_checkpoint(folder / "bad", other.parts()), IoError);
  CHECK(other.bytes(folder) == before);
}

TEST_CASE("the row offset belongs to the replica and not to the checkpoint") {
  TemporaryFolder folder;
  RandomStep a{.seed = 1, .step = 2, .call = 3, .row_offset = 4}, b{.row_offset = 5};
  save_checkpoint(folder / "f", {.random = &a});
  load_checkpoint(folder / "f", {.random = &b});
  CHECK(b.seed == 1);
  CHECK(b.step == 2);
  CHECK(b.call == 3);
  CHECK(b.row_offset == 5);
}

TEST_CASE("a model may not take the prefix of the rest") {
  struct Clash : nn::Module {
    nn::Linear part{2, 2};
    Clash() { add("tandem", part); }
  } clash;
  TemporaryFolder folder;
  CHECK(says(error_of([&] { save_checkpoint(folder / "f", {.model = &clash}); }), "tandem.weight"));
  CHECK(folder.entries() == 0);
}
