#include "tests/support/op_case.h"

#include <tandem/core/autograd.h>

#include <tandem/ops/binary.h>
#include <tandem/ops/relu.h>

#include <doctest/doctest.h>

#include <cmath>

using namespace tandem;
using namespace tandem::test;

TEST_CASE("new tensors: shape, dtype, layout, values") {
  Tensor x = zeros({2, 3});
  CHECK(x.shape() == Dims{2, 3});
  CHECK(x.strides() == Dims{3, 1});
  CHECK(x.dtype() == Dtype::f32);
  CHECK(x.device() == cpu());
  CHECK(x.dim() == 2);
  CHECK(x.numel() == 6);
  CHECK(x.size(-1) == 3);
  CHECK(x.stride(-2) == 3);
  CHECK_THROWS_AS(x.size(2), ShapeError);
  CHECK_FALSE(x.requires_grad());
  CHECK(x.to_vector() == std::vector<float>(6, 0.f));

  CHECK(ones({2}, {.dtype = Dtype::i64}).to_vector<int64_t>() == std::vector<int64_t>{1, 1});
  CHECK(full({2}, 2.5, {.dtype = Dtype::bf16}).to_vector() == std::vector<float>{2.5, 2.5});
  CHECK(full({1}, 7, {.dtype = Dtype::boolean}).to_vector<bool>() == std::vector<bool>{true});
  CHECK(std::signbit(full({1}, -0.0).item()));
  CHECK(zeros({2, 3, 4, 5}, {.layout = Layout::channels_last}).strides() == Dims{60, 1, 15, 3});
  CHECK(zeros({3}, {.requires_grad = true}).requires_grad());
  CHECK(zeros({}).numel() == 1);
  CHECK(zeros({0, 3}).to_vector().empty());
  CHECK_THROWS_WITH_AS(empty({2, -1}), "[empty] negative size in [2,-1]", ShapeError);
  const int64_t big = int64_t(1) << 32;
  CHECK_THROWS_WITH_AS(empty({big, big}), "[empty] [4294967296,4294967296] of f32 takes more bytes than can be counted",
                       ShapeError);
  float one = 1;
  CHECK_THROWS_AS(from_blob(&one, {big, big}, {}), ShapeError);
  CHECK_THROWS_AS(from_blob(&one, {-1}, {}), ShapeError);
  CHECK_THROWS_AS(arange(0, INFINITY), Error);

  Tensor like = zeros({2, 3, 4, 5}, {.dtype = Dtype::f64, .layout = Layout::channels_last});
  for (const Tensor& t : {empty_like(like), zeros_like(like), ones_like(like)}) {
    CHECK(t.shape() == like.shape());
    CHECK(t.dtype() == Dtype::f64);
    CHECK(t.layout() == Layout::channels_last);
  }
  CHECK(ones_like(like).to_vector<double>() == std::vector<double>(120, 1));
}

TEST_CASE("arange") {
  CHECK(arange(0, 4).to_vector<int64_t>() == std::vector<int64_t>{0, 1, 2, 3});
  CHECK(arange(0, 4).dtype() == Dtype::i64);
  CHECK(arange(5, 0, -2).to_vector<int64_t>() == std::vector<int64_t>{5, 3, 1});
  CHECK(arange(0, 1, 0.25, {.dtype = Dtype::f32}).to_vector() == std::vector<float>{0, 0.25, 0.5, 0.75});
  CHECK(arange(0, 1, 0.3, {.dtype = Dtype::f64}).numel() == 4);
  CHECK(arange(3, 3).numel() == 0);
  CHECK_THROWS_WITH_AS(arange(0, 4, -1), "[arange] from 0 to 4 by -1", Error);
  CHECK_THROWS_AS(arange(0, 4, 0), Error);
}

TEST_CASE("from the host's values") {
  Tensor x = from_vector<float>({1, 2, 3, 4, 5, 6}, {2, 3});
  CHECK(x.data<float>()[4] == 5);
  CHECK(tensor({int64_t(3), int64_t(4)}).dtype() == Dtype::i64);
  CHECK(tensor({1.5, 2.5}).dtype() == Dtype::f64);
  CHECK(tensor({true, false}).dtype() == Dtype::boolean);
  CHECK(from_vector<float>({7}, {}).item() == 7);
  CHECK(from_vector<float>({1}, {1}, {.dtype = Dtype::i64}).dtype() == Dtype::f32);  // the dtype is that of the values
  CHECK(from_vector<float>({1}, {1}, {.requires_grad = true}).requires_grad());
  CHECK_THROWS_WITH_AS(from_vector<float>({1, 2}, {3}), "[from_vector] 2 values for shape [3]", ShapeError);
  std::vector<float> v{0, 1, 2, 3, 4, 5, 6, 7};
  Tensor last = from_vector(v, {1, 2, 2, 2}, {.layout = Layout::channels_last});
  CHECK(last.layout() == Layout::channels_last);
  CHECK(last.to_vector() == v);
  CHECK(std::vector<float>(last.ptr<float>(), last.ptr<float>() + 8) == std::vector<float>{0, 4, 1, 5, 2, 6, 3, 7});
}

TEST_CASE("data gives the memory to whoever says what it holds") {
  Tensor x = zeros({2, 3}), last = zeros({2, 3, 4, 5}, {.layout = Layout::channels_last});
  x.data<float>()[1] = 8;
  CHECK(x.span<float>().size() == 6);
  CHECK(x.span<float>()[1] == 8);
  CHECK(last.data<float>(Layout::channels_last) == last.raw());
  CHECK_THROWS_WITH_AS(x.data<double>(), "[data] this tensor is f32, asked for as f64", DtypeError);
  CHECK_THROWS_WITH_AS(last.data<float>(), doctest::Contains("is not row_major"), ShapeError);
  CHECK_THROWS_WITH_AS(last.span<float>(), doctest::Contains("is not row_major"), ShapeError);
  CHECK_THROWS_WITH_AS(x.alias({3, 2}, {1, 3}, 0).data<float>(),
                       "[data] this tensor of shape [3,2] and strides [1,3] is not row_major: contiguous() makes a "
                       "copy that is, or name the layout it has",
                       ShapeError);
}

TEST_CASE("from_blob uses foreign memory and says when it is done with it") {
  std::vector<float> memory{1, 2, 3, 4};
  int calls = 0;
  void* told = nullptr;
  {
    Tensor view;
    {
      Tensor x = from_blob(memory.data(), {2, 2}, [&](void* p) {
        ++calls;
        told = p;
      });
      CHECK(x.raw() == memory.data());
      x.data<float>()[0] = 9;
      view = x.alias({2}, {1}, 2);
    }
    CHECK(calls == 0);
    CHECK(view.to_vector() == std::vector<float>{3, 4});
  }
  CHECK(calls == 1);
  CHECK(told == memory.data());
  CHECK(memory[0] == 9);
  { Tensor untold = from_blob(memory.data(), {4}, {}); }
  CHECK(calls == 1);
  Tensor typed = from_blob(memory.data(), {1, 2, 1, 2}, {}, {.layout = Layout::channels_last, .requires_grad = true});
  CHECK(typed.requires_grad());
  CHECK(typed.to_vector() == std::vector<float>{9, 3, 2, 4});
}

TEST_CASE("to_vector is in row-major order, of the type that is asked for") {
  Tensor x = from_vector<float>({1.5, -2, 0, 4, 5, 6}, {2, 3});
  CHECK(x.alias({3, 2}, {1, 3}, 0).to_vector() == std::vector<float>{1.5, 4, -2, 5, 0, 6});
  CHECK(x.alias({2, 2}, {3, 2}, 0).to_vector() == std::vector<float>{1.5, 0, 4, 6});
  CHECK(x.alias({2, 3}, {0, 1}, 3).to_vector() == std::vector<float>{4, 5, 6, 4, 5, 6});
  CHECK(x.to_vector<int32_t>() == std::vector<int32_t>{1, -2, 0, 4, 5, 6});
  CHECK(x.to_vector<bool>() == std::vector<bool>{true, true, false, true, true, true});
  CHECK(x.to_vector<double>()[0] == 1.5);
}

TEST_CASE("item") {
  CHECK(full({}, 2.5).item() == 2.5);
  CHECK(full({1, 1}, 3).item<int64_t>() == 3);
  CHECK(tensor({true}).item<bool>());
  CHECK_THROWS_WITH_AS(zeros({2}).item(), "[item] takes a tensor of one element, this has shape [2]", ShapeError);
  CHECK_THROWS_AS(zeros({0}).item(), ShapeError);
}

TEST_CASE("layouts of a tensor: sizes of 1 fit both, strided ones fit none") {
  CHECK(zeros({2, 3, 4, 5}, {.layout = Layout::channels_last}).layout() == Layout::channels_last);
  Tensor one = zeros({2, 1, 4, 5}, {.layout = Layout::channels_last});
  CHECK(one.is_contiguous());
  CHECK(one.is_contiguous(Layout::channels_last));
  CHECK(one.layout() == Layout::row_major);
  Tensor t = zeros({4, 6}).alias({6, 4}, {1, 6}, 0);
  CHECK_FALSE(t.is_contiguous());
  CHECK_FALSE(t.is_dense_in_any_layout());
  TensorOptions o = zeros({2, 3, 4, 5}, {.dtype = Dtype::f64, .layout = Layout::channels_last}).options();
  CHECK(o.dtype == Dtype::f64);
  CHECK(o.layout == Layout::channels_last);
  CHECK_FALSE(o.requires_grad);
}

TEST_CASE("handles and aliases") {
  Tensor none;
  CHECK_FALSE(none.defined());
  CHECK_FALSE(bool(none));
  Tensor x = zeros({2, 3}), same = x, alias = x.alias({3}, {2}, 1), detached = x.detach();
  CHECK(same.is_same(x));
  CHECK_FALSE(detached.is_same(x));
  detached.data<float>()[1] = 4;
  CHECK(x.to_vector()[1] == 4);
  CHECK(alias.to_vector()[0] == 4);
  CHECK(alias.storage() == x.storage());
}

TEST_CASE("unique: nobody else can see the memory") {
  Tensor x = zeros({8});
  CHECK(x.unique());
  {
    Tensor other = x;
    CHECK_FALSE(x.unique());
  }
  {
    Tensor view = x.detach();
    CHECK_FALSE(x.unique());
  }
  CHECK(x.unique());
  x.set_requires_grad();
  CHECK_FALSE(x.unique());  // a leaf's values are the user's
  float memory[4];
  CHECK_FALSE(from_blob(memory, {4}, {}).unique());
}

TEST_CASE("an undefined tensor is an error wherever it is used, and names the op") {
  Tensor none, moved = ones({2});
  Tensor taken = std::move(moved);
  CHECK_FALSE(none.defined());
  CHECK_FALSE(moved.defined());
  CHECK_THROWS_AS((void)none.shape(), Error);
  CHECK_THROWS_AS((void)none.device(), Error);
  CHECK_THROWS_AS((void)none.to_vector(), Error);
  CHECK_THROWS_AS((void)none.item(), Error);
  CHECK_THROWS_AS((void)none.detach(), Error);
  CHECK_THROWS_AS((void)none.grad(), Error);
  CHECK_THROWS_AS((void)none.requires_grad(), Error);
  CHECK_THROWS_AS(none.set_requires_grad(), Error);
  CHECK_THROWS_AS(none.backward(), Error);
  CHECK_THROWS_AS((void)none.data<float>(), Error);
  CHECK_THROWS_AS(none.add_(1), Error);
  CHECK_THROWS_WITH_AS(relu(none), doctest::Contains("relu"), Error);
  CHECK_THROWS_WITH_AS(taken + moved, doctest::Contains("undefined tensor"), Error);
  CHECK(taken.to_vector() == std::vector<float>{1, 1});
}
