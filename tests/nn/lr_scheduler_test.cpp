#include "tests/nn/lr_numbers.h"
#include "tests/nn/support.h"

#include <tandem/nn/adam.h>
#include <tandem/nn/cosine_annealing_lr.h>
#include <tandem/nn/linear_lr.h>
#include <tandem/nn/one_cycle_lr.h>
#include <tandem/nn/polynomial_lr.h>
#include <tandem/nn/reduce_lr_on_plateau.h>
#include <tandem/nn/sequential_lr.h>
#include <tandem/nn/sgd.h>
#include <tandem/nn/step_lr.h>

#include <doctest/doctest.h>

#include <cmath>
#include <numbers>

using namespace tandem;
using namespace tandem::test;

namespace {

nn::SGD sgd(double lr = 0.1) { return nn::SGD({zeros({1}, {.requires_grad = true})}, {.lr = lr, .momentum = 0.9}); }

// The rates, from the one that construction sets on.
template <class Scheduler>
std::vector<double> rates(nn::SGD& o, Scheduler& s, size_t n) {
  std::vector<double> lrs;
  for (size_t i = 0; i < n; ++i) {
    lrs.push_back(o.param_groups()[0].lr);
    CHECK(s.get_last_lr()[0] == lrs.back());
    if (i + 1 < n) s.step();
  }
  return lrs;
}

void close(const std::vector<double>& got, const std::vector<double>& want) {
  REQUIRE(got.size() == want.size());
  for (size_t i = 0; i < got.size(); ++i) {
    INFO("step ", i);
    CHECK(std::abs(got[i] - want[i]) <= 1e-15);
  }
}

}  // namespace

TEST_CASE("schedules give PyTorch's rates") {
  SUBCASE("StepLR") {
    auto o = sgd();
    nn::StepLR s{o, {.step_size = 5, .gamma = 0.2}};
    close(rates(o, s, kStepLR.size()), kStepLR);
  }
  SUBCASE("MultiStepLR") {
    auto o = sgd();
    nn::MultiStepLR s{o, {.milestones = {2, 5, 9}, .gamma = 0.5}};
    close(rates(o, s, kMultiStepLR.size()), kMultiStepLR);
  }
  SUBCASE("ExponentialLR") {
    auto o = sgd();
    nn::ExponentialLR s{o, 0.9};
    close(rates(o, s, kExponentialLR.size()), kExponentialLR);
  }
  SUBCASE("CosineAnnealingLR") {
    auto o = sgd();
    nn::CosineAnnealingLR s{o, {.T_max = 10, .eta_min = 0.001}};
    close(rates(o, s, kCosineAnnealingLR.size()), kCosineAnnealingLR);
  }
  SUBCASE("LinearLR") {
    auto o = sgd();
    nn::LinearLR s{o, {.start_factor = 0.1, .total_iters = 5}};
    close(rates(o, s, kLinearLR.size()), kLinearLR);
  }
  SUBCASE("OneCycleLR") {
    auto o = sgd();
    nn::OneCycleLR s{o, {.max_lr = 0.4, .total_steps = 26}};
    for (size_t i = 0; i < kOneCycleLR.size(); ++i) {
      INFO("step ", i);
      CHECK(std::abs(o.param_groups()[0].lr - kOneCycleLR[i]) <= 1e-15);
      CHECK(std::abs(o.param_groups()[0].momentum - kOneCycleMomentum[i]) <= 1e-15);
      s.step();
    }
    s.step();  // the 26th
    CHECK(says(error_of([&] { s.step(); }), "[OneCycleLR] step 27 of 26"));
  }
}

TEST_CASE("ConstantLR and PolynomialLR") {
  auto a = sgd(), b = sgd(), c = sgd();
  nn::ConstantLR constant{a, {.factor = 0.5, .total_iters = 3}};
  close(rates(a, constant, 5), {0.05, 0.05, 0.05, 0.1, 0.1});
  nn::PolynomialLR line{b, {.total_iters = 4}};
  close(rates(b, line, 6), {0.1, 0.075, 0.05, 0.025, 0, 0});
  nn::PolynomialLR square{c, {.total_iters = 4, .power = 2}};
  close(rates(c, square, 3), {0.1, 0.1 * 9 / 16, 0.1 * 4 / 16});
}

TEST_CASE("OneCycleLR in three phases, along lines, by epochs, with Adam and several groups") {
  nn::Adam o({zeros({1}, {.requires_grad = true})}, {});
  o.add_param_group({zeros({1}, {.requires_grad = true})}, {});
  nn::OneCycleLR s{o,
                   {.max_lr = {1, 10},
                    .epochs = 5,
                    .steps_per_epoch = 4,
                    .pct_start = 0.25,
                    .anneal_strategy = nn::OneCycleLR::Anneal::linear,
                    .div_factor = 10,
                    .final_div_factor = 100,
                    .three_phase = true}};
  std::vector<double> lr, momentum;
  for (int i = 0; i < 20; ++i) {
    lr.push_back(o.param_groups()[0].lr);
    momentum.push_back(o.param_groups()[0].betas[0]);
    CHECK(o.param_groups()[1].lr == doctest::Approx(10 * lr.back()));
    if (i < 19) s.step();
  }
  CHECK(lr[0] == doctest::Approx(0.1));
  CHECK(lr[4] == doctest::Approx(1));    // the end of the rise: 0.25 * 20 - 1
  CHECK(lr[8] == doctest::Approx(0.1));  // and of the fall
  CHECK(lr[19] == doctest::Approx(0.001));
  CHECK(momentum[0] == doctest::Approx(0.95));
  CHECK(momentum[4] == doctest::Approx(0.85));
  CHECK(momentum[8] == doctest::Approx(0.95));
  CHECK(momentum[19] == doctest::Approx(0.95));
}

TEST_CASE("SequentialLR hands over at its milestones") {
  auto o = sgd();
  nn::LinearLR warmup{o, {.start_factor = 0.5, .total_iters = 2}};
  nn::StepLR steps{o, {.step_size = 2, .gamma = 0.1}};
  nn::SequentialLR s{o, {&warmup, &steps}, {3}};
  close(rates(o, s, 8), {0.05, 0.075, 0.1, 0.1, 0.1, 0.01, 0.01, 0.001});

  auto p = sgd();
  nn::ConstantLR low{p, {.factor = 0.1, .total_iters = 100}};
  nn::CosineAnnealingLR cosine{p, {.T_max = 4}};
  nn::SequentialLR t{p, {&low, &cosine}, {2}};
  const double half = 0.1 * (1 + std::cos(std::numbers::pi / 4)) / 2;
  close(rates(p, t, 5), {0.01, 0.01, 0.1, half, 0.05});

  CHECK(says(error_of([&] { nn::SequentialLR bad(o, {&warmup}, {3}); }), "1 milestones for 1 schedules"));
  CHECK(says(error_of([&] { nn::SequentialLR bad(o, {&warmup, &low}, {3}); }), "another optimizer"));
  CHECK(says(error_of([&] { nn::SequentialLR bad(o, {&warmup, &steps, &steps}, {3, 3}); }), "do not rise"));
}

TEST_CASE("ReduceLROnPlateau waits, reduces, cools down") {
  auto o = sgd();
  nn::ReduceLROnPlateau s{o, {.factor = 0.5, .patience = 1, .cooldown = 2, .min_lr = 0.02}};
  auto after = [&](double metric) {
    s.step(metric);
    return o.param_groups()[0].lr;
  };
  CHECK(after(1) == 0.1);
  CHECK(after(0.99995) == 0.1);  // less than the threshold: the first bad epoch
  CHECK(after(1) == 0.05);
  CHECK(after(1) == 0.05);  // cooling down
  CHECK(after(1) == 0.05);
  CHECK(after(1) == 0.05);
  CHECK(after(1) == 0.025);
  for (int i = 0; i < 4; ++i) after(NAN);  // no improvement
  CHECK(s.get_last_lr()[0] == 0.02);

  auto p = sgd();
  nn::ReduceLROnPlateau rising{p,
                               {.mode = nn::ReduceLROnPlateau::Mode::max,
                                .patience = 0,
                                .threshold = 0.5,
                                .threshold_mode = nn::ReduceLROnPlateau::ThresholdMode::abs}};
  rising.step(1);
  rising.step(1.6);
  CHECK(p.param_groups()[0].lr == 0.1);
  rising.step(2);
  CHECK(p.param_groups()[0].lr == doctest::Approx(0.01));
  CHECK_THROWS_AS(nn::ReduceLROnPlateau(o, {.factor = 1}), Error);
}

TEST_CASE("a schedule resumes where it was") {
  auto run = [](int before, int after) {  // SequentialLR with a cycle behind a warm-up, cut once
    std::vector<double> lrs;
    nn::NamedNumbers saved;
    nn::NamedTensors optimizer_state;
    for (int part = 0; part < 2; ++part) {
      auto o = sgd(part ? 7 : 0.1);
      nn::LinearLR warmup{o};
      nn::CosineAnnealingLR cosine{o, {.T_max = 6, .eta_min = 0.001}};
      nn::SequentialLR s{o, {&warmup, &cosine}, {4}};
      if (part) {
        o.load_state_dict(optimizer_state);
        s.load_state_dict(saved);
        CHECK(s.get_last_lr()[0] == lrs.back());
      }
      for (int i = 0; i < (part ? after : before); ++i) {
        s.step();
        lrs.push_back(o.param_groups()[0].lr);
      }
      saved = s.state_dict();
      for (auto& [key, t] : o.state_dict()) optimizer_state.emplace_back(key, t.clone());
    }
    return lrs;
  };
  auto straight = run(9, 0), cut = run(5, 4);
  CHECK(straight == cut);
  CHECK(run(2, 7) == straight);
}

TEST_CASE("a cycle resumes with its momentum") {
  auto a = sgd(), b = sgd();
  nn::OneCycleLR s{a, {.max_lr = 0.4, .total_steps = 20}}, t{b, {.max_lr = 0.4, .total_steps = 20}};
  for (int i = 0; i < 8; ++i) s.step();
  t.load_state_dict(s.state_dict());
  CHECK(b.param_groups()[0].momentum == a.param_groups()[0].momentum);
  CHECK(b.param_groups()[0].lr == a.param_groups()[0].lr);
  CHECK(says(error_of([&] {
               t.load_state_dict({{"last_epoch", 1}, {"x", 2}});
             }),
             "missing: base_lr.0\n  missing: last_lr.0\n  missing: type.OneCycleLR\n  unexpected: x"));

  nn::ReduceLROnPlateau p{a}, q{a};
  p.step(0.5);
  p.step(0.7);
  q.load_state_dict(p.state_dict());
  CHECK(q.state_dict() == p.state_dict());
  CHECK_THROWS_AS(q.load_state_dict({}), Error);
}

TEST_CASE("a schedule refuses the state of another kind, naming both") {
  auto o = sgd();
  nn::StepLR steps{o, {.step_size = 2}};
  nn::LinearLR warmup{o};
  nn::CosineAnnealingLR cosine{o, {.T_max = 4}};
  nn::SequentialLR sequence{o, {&warmup, &cosine}, {2}}, other{o, {&warmup, &steps}, {2}};
  auto refused = [](nn::LRScheduler& s, const nn::LRScheduler& of) {
    const nn::NamedNumbers before = s.state_dict();
    const std::string error = error_of([&] { s.load_state_dict(of.state_dict()); });
    CHECK(s.state_dict() == before);
    return error;
  };
  CHECK(says(refused(cosine, steps), "this is the state of a StepLR, and the schedule is a CosineAnnealingLR"));
  CHECK(says(refused(steps, sequence), "the state of a SequentialLR, and the schedule is a StepLR"));
  CHECK(says(refused(sequence, steps), "the state of a StepLR, and the schedule is a SequentialLR"));
  CHECK(says(refused(sequence, other), "the state of a StepLR, and the schedule is a CosineAnnealingLR"));
}

TEST_CASE("schedules refuse what makes no sense") {
  auto o = sgd();
  CHECK_THROWS_AS(nn::StepLR(o, {}), Error);
  CHECK_THROWS_AS(nn::CosineAnnealingLR(o, {}), Error);
  CHECK_THROWS_AS(nn::LinearLR(o, {.start_factor = 0}), Error);
  CHECK_THROWS_AS(nn::LinearLR(o, {.end_factor = 2}), Error);
  CHECK_THROWS_AS(nn::ConstantLR(o, {.factor = 2}), Error);
  CHECK_THROWS_AS(nn::PolynomialLR(o, {.total_iters = 0}), Error);
  CHECK_THROWS_AS(nn::OneCycleLR(o, {.max_lr = 1}), Error);
  CHECK_THROWS_AS(nn::OneCycleLR(o, {.max_lr = {1, 2}, .total_steps = 5}), Error);
}
