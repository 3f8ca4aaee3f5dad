#include "tests/support/op_case.h"

#include <tandem/ops/param_row.h>

#include <doctest/doctest.h>

using namespace tandem;
using namespace tandem::test;

namespace {

// Parameters of these sizes, values and gradients side by side, each with a gradient.
struct Flat {
  std::vector<Tensor> params;
  std::vector<ParamRow> rows;
  explicit Flat(std::vector<int64_t> sizes) {
    std::vector<Storage*> values, grads;
    int64_t offset = 0;
    for (int64_t n : sizes) {
      Tensor p = random_tensor({n}, {.requires_grad = true}).set_requires_grad();
      Leaf* l = p.leaf();
      l->written = true;
      rows.push_back({.leaf = l, .state_offset = offset});
      offset += rows.back().extent();
      values.push_back(l->value.get());
      grads.push_back(l->ensure_window().storage().get());
      params.push_back(p);
    }
    lay_out(values);
    lay_out(grads);
  }
  using Runs = std::vector<std::array<int64_t, 3>>;
  Runs runs() const {
    Runs r;
    for_each_run<float>(rows, [&](size_t first, size_t count, int64_t elements) {
      r.push_back({int64_t(first), int64_t(count), elements});
    });
    return r;
  }
};
using Runs = Flat::Runs;

}  // namespace

TEST_CASE("neighbours in values, gradients and states run as one") {
  Flat f({16, 3, 40});
  CHECK(f.rows[1].extent() == 16);
  CHECK(f.runs() == Runs{{0, 3, 16 + 16 + 40}});
  CHECK(Flat({5}).runs() == Runs{{0, 1, 5}});
}

TEST_CASE("a run ends at a row without gradient, of another group or of another age") {
  Flat f({16, 3, 40});
  f.rows[1].leaf->written = false;
  CHECK(f.runs() == Runs{{0, 1, 16}, {2, 1, 40}});
  f.rows[1].leaf->written = true;
  f.rows[1].group = 1;
  CHECK(f.runs() == Runs{{0, 1, 16}, {1, 1, 3}, {2, 1, 40}});
  f.rows[1].group = 0;
  f.rows[2].step = 1;
  CHECK(f.runs() == Runs{{0, 2, 19}, {2, 1, 40}});
}

TEST_CASE("a run ends where memories part") {
  Flat f({16, 3, 40});
  f.rows[2].state_offset += 16;
  CHECK(f.runs() == Runs{{0, 2, 19}, {2, 1, 40}});
  Flat g({16, 3, 40});
  g.rows[1].leaf->window = zeros({3});
  CHECK(g.runs() == Runs{{0, 1, 16}, {1, 1, 3}, {2, 1, 40}});
  Flat h({16, 3, 40});
  h.rows[1].leaf->value->rebind(zeros({100}).storage(), 0);
  CHECK(h.runs() == Runs{{0, 1, 16}, {1, 1, 3}, {2, 1, 40}});
}
