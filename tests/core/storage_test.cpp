#include "tests/support/op_case.h"

#include <tandem/core/storage.h>
#include <tandem/ops/binary.h>
#include <tandem/ops/reduce.h>

#include <doctest/doctest.h>

#include <algorithm>

using namespace tandem;
using namespace tandem::test;

namespace {

size_t distance(const Tensor& a, const Tensor& b) {
  return size_t(static_cast<std::byte*>(b.raw()) - static_cast<std::byte*>(a.raw()));
}

}  // namespace

TEST_CASE("a window lies in its base, and keeps it alive") {
  Tensor base = arange(0, 8, 1, {.dtype = Dtype::f32});
  Tensor window(Storage::window(base.storage(), 8, 16), {4}, {1}, Dtype::f32);
  CHECK(window.to_vector() == std::vector<float>{2, 3, 4, 5});
  window.data<float>()[0] = 20;
  CHECK(base.to_vector()[2] == 20);
  CHECK(window.storage()->version == 0);  // its own
  base = {};
  CHECK(window.to_vector()[0] == 20);
  CHECK_THROWS_WITH_AS(Storage::window(window.storage(), 4, 16), "a window of 16 bytes at 4 of 16", Error);
}

TEST_CASE("rebind moves a storage, and handles and views follow") {
  Tensor x = tensor({1.f, 2.f, 3.f}), view = x.alias({2}, {1}, 1), home = zeros({32});
  x.storage()->bump();
  const auto version = x.storage()->version.load();
  x.storage()->rebind(home.storage(), 64);
  CHECK(x.raw() == home.ptr<float>() + 16);
  CHECK(x.to_vector() == std::vector<float>{1, 2, 3});
  CHECK(view.to_vector() == std::vector<float>{2, 3});
  view.data<float>()[0] = 7;
  CHECK(home.to_vector()[17] == 7);
  CHECK(x.storage()->version == version);
  home.storage()->bump();
  CHECK(x.storage()->version == version);
  Tensor unwritten = full({2}, 5);
  unwritten.storage()->rebind(home.storage(), 0, false);
  CHECK(unwritten.to_vector() == std::vector<float>{0, 0});
}

TEST_CASE("lay_out puts memories side by side, aligned, with gaps of zeros") {
  Tensor a = full({3}, 1), b = full({5}, 2, {.dtype = Dtype::f64}), c = full({16}, 3);
  Storage* parts[] = {a.storage().get(), b.storage().get(), c.storage().get()};
  lay_out(parts);
  CHECK(distance(a, b) == 64);
  CHECK(distance(b, c) == 64);
  CHECK(reinterpret_cast<uintptr_t>(a.raw()) % kAlignment == 0);
  CHECK(a.to_vector() == std::vector<float>(3, 1.f));
  CHECK(b.to_vector() == std::vector<float>(5, 2.f));
  CHECK(c.to_vector() == std::vector<float>(16, 3.f));
  CHECK(std::all_of(a.ptr<float>() + 3, a.ptr<float>() + 16, [](float v) { return v == 0; }));

  void* where = a.raw();
  lay_out(parts);  // already so
  CHECK(a.raw() == where);
  Storage* turned[] = {b.storage().get(), a.storage().get()};
  lay_out(turned, {true, false});
  CHECK(distance(b, a) == 64);
  CHECK(b.to_vector() == std::vector<float>(5, 2.f));
  CHECK(a.to_vector() == std::vector<float>(3, 0.f));  // needed no copy
  CHECK(c.to_vector() == std::vector<float>(16, 3.f));
  CHECK_NOTHROW(lay_out({}));
}

TEST_CASE("what was saved for backward follows a lay_out in the middle of a graph") {
  Tensor x = random_tensor({6}, {}), w = random_tensor({6}, {});
  x.set_requires_grad();
  w.set_requires_grad();
  Tensor y = sum(mul(x, w));
  auto xv = x.to_vector(), wv = w.to_vector();
  Storage* parts[] = {w.storage().get(), x.storage().get()};
  lay_out(parts);
  y.backward();
  CHECK(x.grad().to_vector() == wv);
  CHECK(w.grad().to_vector() == xv);

  // Gradients move, too, and the next backward writes to their new place.
  Storage* grads[] = {x.grad().storage().get(), w.grad().storage().get()};
  Tensor kept = x.grad();
  lay_out(grads);
  sum(mul(x, w)).backward();
  CHECK(kept.is_same(x.grad()));
  CHECK(distance(x.grad(), w.grad()) == 64);
  for (float& v : wv) v *= 2;
  CHECK(kept.to_vector() == wv);

  // A change in place is still noticed after a move.
  y = sum(mul(x, w));
  Storage* back[] = {x.storage().get(), w.storage().get()};
  lay_out(back);
  w.storage()->bump();
  CHECK_THROWS_WITH_AS(y.backward(), doctest::Contains("changed in place"), Error);
}

TEST_CASE("move_to takes a storage to another device, and frees what it had") {
  set_cpu_devices(4);
  const size_t before = memory_allocated(cpu(0)), there = memory_allocated(cpu(3));
  Tensor x = tensor({1.f, 2.f}), view = x.alias({1}, {1}, 1);
  x.storage()->move_to(cpu(3));
  CHECK(x.device() == cpu(3));
  CHECK(view.device() == cpu(3));
  CHECK(view.item() == 2);
  CHECK(memory_allocated(cpu(0)) == before);
  CHECK(memory_allocated(cpu(3)) > there);
  x.storage()->move_to(cpu(3));  // is there already
  Storage* parts[] = {x.storage().get()};
  lay_out(parts);
  x.storage()->move_to(cpu(1));  // out of the block
  CHECK(x.to_vector() == std::vector<float>{1, 2});
  CHECK_FALSE(x.storage()->base);
  float memory[2] = {};
  for (const std::function<void(void*)>& deleter : {std::function<void(void*)>(), std::function([](void*) {})})
    CHECK_THROWS_WITH_AS(from_blob(memory, {2}, deleter).storage()->move_to(cpu(1)),
                         "[to] foreign memory can't move from cpu:0 to cpu:1: a clone() can", Error);
}
