#include "tests/nn/support.h"

#include <tandem/core/copy.h>
#include <tandem/nn/module.h>

#include <doctest/doctest.h>

#include <sstream>

using namespace tandem;
using namespace tandem::test;

namespace {

// y = x, with a parameter, a buffer and an absent parameter.
struct Part : nn::Module {
  Tensor weight = random_tensor({2, 3}, {}), bias, seen = zeros({}, {.dtype = Dtype::i64});
  Part() {
    add_buffer("seen", seen);
    add("weight", weight);
    add("bias", bias);
  }
  Tensor forward(const Tensor& x) override { return x; }
  std::string extra_repr() const override { return "2, 3"; }
};

struct Pair : nn::Module {
  Part first, second;
  Tensor scale = random_tensor({1}, {}), running = random_tensor({4}, {});
  Pair() {
    add("first", first);
    add("second", second);
    add_buffer("running", running);
    add("scale", scale);
  }
  Tensor forward(const Tensor& a, const Tensor&) { return a; }
};

std::vector<std::string> names(const nn::NamedTensors& list) {
  std::vector<std::string> r;
  for (auto& [name, t] : list) r.push_back(name);
  return r;
}

}  // namespace

TEST_CASE("a module lists its parameters, buffers and children in order of registration") {
  Pair net;
  using List = std::vector<std::string>;
  CHECK(names(net.named_parameters()) == List{"scale", "first.weight", "second.weight"});
  CHECK(names(net.named_buffers()) == List{"running", "first.seen", "second.seen"});
  CHECK(names(net.state_dict()) ==
        List{"scale", "running", "first.weight", "first.seen", "second.weight", "second.seen"});
  CHECK(net.parameters().size() == 3);
  CHECK(net.num_parameters() == 13);
  for (auto& p : net.parameters()) CHECK(p.requires_grad());
  CHECK(!net.running.requires_grad());
  CHECK(net.children().size() == 2);
  auto all = net.named_modules();
  REQUIRE(all.size() == 3);
  CHECK(all[0].second == &net);
  CHECK(all[2].first == "second");
}

TEST_CASE("a member has one name, and a name one member") {
  struct Twice : nn::Module {
    Part a, b;
    Tensor t = zeros({1}), u = zeros({1});
    explicit Twice(int which) {
      add("a", a);
      add("t", t);
      if (which == 0) add("again", a);
      if (which == 1) add("a", b);
      if (which == 2) add("t2", t);
      if (which == 3) add("a", u);
      if (which == 4) add("x.y", b);
      if (which == 5) add("", b);
      if (which == 6) add("self", *this);
    }
  };
  auto message_of = [](int which) { return error_of([=] { Twice t(which); }); };
  CHECK(message_of(0) == "[Twice] the member added as \"again\" is already registered as \"a\"");
  CHECK(says(message_of(1), "the name \"a\" is already taken"));
  CHECK(says(message_of(2), "\"t2\" is already registered as \"t\""));
  CHECK(says(message_of(3), "the name \"a\" is already taken"));
  CHECK(says(message_of(4), "\"x.y\" can't name a member"));
  CHECK(says(message_of(5), "\"\" can't name a member"));
  CHECK(says(message_of(6), "\"self\" contains the module it is added to"));
  CHECK(message_of(7).empty());
}

TEST_CASE("a parameter is floating, dense and in memory of its own") {
  struct With : nn::Module {
    Tensor t;
    explicit With(Tensor x) : t(std::move(x)) { add("t", t); }
  };
  CHECK_THROWS_AS(With(arange(0, 3)), DtypeError);
  Tensor x = zeros({4});
  CHECK(says(error_of([&] { With w(x.alias({2}, {1}, 1)); }), "\"t\" of shape [2] is a view"));
  CHECK_NOTHROW(With(zeros({2, 3, 4, 5}, {.layout = Layout::channels_last})));
}

TEST_CASE("a tensor that two modules share is one parameter with two keys") {
  Pair net;
  net.second.weight = net.first.weight;
  CHECK(net.parameters().size() == 2);
  CHECK(net.num_parameters() == 7);
  CHECK(net.state_dict().size() == 6);
}

TEST_CASE("modes, apply, freezing and gradients reach every module below") {
  Pair net;
  CHECK(net.second.is_training());
  net.eval();
  CHECK(!net.is_training());
  CHECK(!net.second.is_training());
  net.train();
  CHECK(net.second.is_training());

  std::vector<nn::Module*> order;
  net.apply([&](nn::Module& m) { order.push_back(&m); });
  CHECK(order == std::vector<nn::Module*>{&net.first, &net.second, &net});

  for (auto& p : net.parameters()) p.backward(ones(p.shape()));
  CHECK(net.first.weight.grad().defined());
  net.zero_grad();
  CHECK(!net.first.weight.grad().defined());

  net.first.requires_grad_(false);
  CHECK(!net.first.weight.requires_grad());
  CHECK(net.second.weight.requires_grad());
  CHECK(net.parameters().size() == 3);
  net.requires_grad_();
  CHECK(net.first.weight.requires_grad());
}

TEST_CASE("a module whose forward takes something else says so") {
  Pair net;
  Tensor x = zeros({2});
  CHECK(net.forward(x, x).is_same(x));
  CHECK(says(error_of([&] { net(x); }), "[Pair] forward takes other arguments"));
  CHECK(net.first(x).is_same(x));
  CHECK(net.first(zeros({2})).numel() == 2);
}

TEST_CASE("to(dtype) converts in place") {
  Pair net;
  Tensor handle = net.first.weight, view = net.first.weight.detach();
  auto before = handle.to_vector();
  handle.backward(ones({2, 3}));
  net.to(Dtype::f64);
  CHECK(handle.dtype() == Dtype::f64);
  CHECK(handle.to_vector() == before);
  CHECK(handle.grad().dtype() == Dtype::f64);
  CHECK(handle.grad().to_vector() == std::vector<float>(6, 1));
  CHECK(view.dtype() == Dtype::f32);
  CHECK(view.to_vector() == before);
  CHECK(net.running.dtype() == Dtype::f64);
  CHECK(net.first.seen.dtype() == Dtype::i64);
  handle.backward(ones({2, 3}, {.dtype = Dtype::f64}));
  CHECK(handle.grad().to_vector() == std::vector<float>(6, 2));
  Tensor other = net.second.weight;  // no gradient yet: its first one has the new dtype
  other.backward(ones({2, 3}, {.dtype = Dtype::f64}));
  CHECK(other.grad().dtype() == Dtype::f64);
  CHECK_THROWS_AS(net.to(Dtype::i64), DtypeError);
}

TEST_CASE("to(device) moves values, gradients and buffers, and every handle follows") {
  set_cpu_devices(2);
  Pair net;
  Tensor handle = net.first.weight, view = net.first.weight.detach();
  auto before = handle.to_vector();
  handle.backward(ones({2, 3}));
  Tensor grad = handle.grad();
  net.to(cpu(1));
  for (auto& [name, t] : net.state_dict()) CHECK(t.device() == cpu(1));
  CHECK(view.device() == cpu(1));
  CHECK(view.to_vector() == before);
  CHECK(grad.device() == cpu(1));
  handle.backward(ones({2, 3}, {.device = cpu(1)}));
  CHECK(grad.to_vector() == std::vector<float>(6, 2));
  CHECK_THROWS_AS(net.to(cpu(40)), DeviceError);
}

TEST_CASE("a module whose gradients a wrapper holds neither moves nor converts") {
  struct Wrapper : GradObserver {
    void begin(std::span<Leaf* const>) override {}
    void ready(Leaf*) override {}
    void done(std::exception_ptr) override {}
  } wrapper;
  Pair net;
  net.second.weight.leaf()->observer = &wrapper;
  CHECK(says(error_of([&] { net.to(Dtype::f64); }), "a data-parallel wrapper holds second.weight"));
  CHECK(says(error_of([&] { net.to(cpu()); }), "second.weight"));
  CHECK(net.scale.dtype() == Dtype::f32);
}

TEST_CASE("load_state_dict copies in place") {
  Pair a, b;
  b.to(Dtype::f64);
  Tensor handle = b.first.weight;
  void* memory = handle.raw();
  const uint32_t version = handle.storage()->version;
  CHECK(b.load_state_dict(a.state_dict()).clean());
  CHECK(handle.raw() == memory);
  CHECK(handle.storage()->version > version);
  CHECK(handle.to_vector() == a.first.weight.to_vector());
  CHECK(b.running.to_vector() == a.running.to_vector());
}

TEST_CASE("load_state_dict ignores a wrapper's prefix") {
  Pair a, b;
  nn::NamedTensors entries;
  for (auto& [name, t] : a.state_dict()) entries.emplace_back("module." + name, t);
  CHECK(b.load_state_dict(entries).clean());
  CHECK(b.second.weight.to_vector() == a.second.weight.to_vector());
}

TEST_CASE("load_state_dict lists everything that does not fit, and changes nothing") {
  Pair a, b;
  auto entries = a.state_dict();
  entries[0].second = zeros({7});      // scale
  entries.erase(entries.begin() + 2);  // first.weight
  entries.emplace_back("more", zeros({1}));
  entries.emplace_back("running", zeros({4}));  // a second time
  auto before = b.running.to_vector();
  CHECK(error_of([&] { b.load_state_dict(entries); }) ==
        "[load_state_dict] this state does not fit Pair:\n  missing: first.weight\n  unexpected: more, running\n"
        "  misshapen: scale [7], not [1]");
  CHECK(b.running.to_vector() == before);

  CHECK(b.load_state_dict(entries, {.strict = false, .dry_run = true}).missing.size() == 1);
  CHECK(b.running.to_vector() == before);
  auto report = b.load_state_dict(entries, {.strict = false});
  CHECK(to_string(report) == "\n  missing: first.weight\n  unexpected: more, running\n  misshapen: scale [7], not [1]");
  CHECK(report.missing == std::vector<std::string>{"first.weight"});
  CHECK(report.unexpected == std::vector<std::string>{"more", "running"});
  CHECK(report.misshapen == std::vector<std::string>{"scale [7], not [1]"});
  CHECK(b.running.to_vector() == a.running.to_vector());
  CHECK(b.scale.to_vector() != std::vector<float>(1, 0));
}

TEST_CASE("the summary nests and counts") {
  Pair net;
  std::ostringstream out;
  out << net;
  CHECK(out.str() ==
        "Pair(  # 13\n"
        "  (first): Part(2, 3)  # 6\n"
        "  (second): Part(2, 3)  # 6\n"
        ")\n"
        "13 parameters");
}
