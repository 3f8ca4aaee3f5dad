#include <tandem/data/image_dataset.h>
#include <tandem/data/subset.h>
#include <tandem/data/tensor_dataset.h>

#include <doctest/doctest.h>

#include "tests/support/op_case.h"

using namespace tandem;
using namespace tandem::data;

using Values = std::vector<float>;
using Indices = std::vector<int64_t>;

TEST_CASE("a TensorDataset's items are rows of its tensors") {
  Tensor x = from_vector<float>({1, 2, 3, 4, 5, 6}, {3, 2}), y = tensor({7.f, 8.f, 9.f}), z = arange(0, 3);
  TensorDataset set(std::vector{x, y, z});
  CHECK(set.size() == 3);
  Sample s = set.get(1);
  CHECK(s.input.to_vector() == Values{3, 4});
  CHECK(s.target.item() == 8);
  CHECK(s.more.at(0).item<int64_t>() == 1);
  Batch b = *set.get_batch(Indices{2, 0});
  CHECK(b.input.shape() == Dims{2, 2});
  CHECK(b.input.to_vector() == Values{5, 6, 1, 2});
  CHECK(b.target.to_vector() == Values{9, 7});
  CHECK(b.more.at(0).to_vector<int64_t>() == Indices{2, 0});
  CHECK_FALSE(TensorDataset(x).get(0).target.defined());
}

TEST_CASE("a TensorDataset of strided tensors") {
  Tensor x = from_vector<float>({1, 2, 3, 4, 5, 6}, {2, 3}), t = x.alias({3, 2}, {1, 3}, 0);
  TensorDataset set(t);
  CHECK(set.get(1).input.to_vector() == Values{2, 5});
  CHECK(set.get_batch(Indices{2, 1})->input.to_vector() == Values{3, 6, 2, 5});
}

TEST_CASE("datasets refuse what does not fit") {
  Tensor x = zeros({3, 2});
  CHECK_THROWS_AS(TensorDataset(x, zeros({4})), ShapeError);
  CHECK_THROWS_AS(TensorDataset(zeros({})), ShapeError);
  CHECK_THROWS_AS(TensorDataset(std::vector<Tensor>{}), Error);
  TensorDataset set(x);
  CHECK_THROWS_WITH_AS(set.get(3), "[TensorDataset] item 3 of 3", Error);
  CHECK_THROWS_AS(set.get(-1), Error);
  CHECK_THROWS_AS(set.get_batch(Indices{0, 3}), Error);
  CHECK_THROWS_WITH_AS(Subset(set, {0, 3}), "[Subset] item 3 of 3", Error);
  CHECK_THROWS_AS(ImageDataset({zeros({2, 3, 4, 4}), arange(0, 2)}), DtypeError);
  CHECK_THROWS_AS(ImageDataset({zeros({2, 3, 4, 4}, {.dtype = Dtype::u8}), arange(0, 3)}), ShapeError);
}

TEST_CASE("a Subset shows some items of another dataset, which it refers to or holds") {
  TensorDataset set(arange(10, 20));
  Subset some(set, {7, 1, 7});
  CHECK(some.size() == 3);
  CHECK(some.get(2).input.item<int64_t>() == 17);
  CHECK(some.get_batch(Indices{1, 0})->input.to_vector<int64_t>() == Indices{11, 17});
  Subset fewer(Subset(TensorDataset(arange(10, 20)), {3, 4, 5}), {2});
  CHECK(fewer.get(0).input.item<int64_t>() == 15);
  CHECK_THROWS_AS(some.get(3), Error);
}

TEST_CASE("a Subset of images offers the same bytes at its own rows") {
  Tensor bytes = empty({4, 3, 2, 2}, {.dtype = Dtype::u8});
  for (int64_t i = 0; i < 48; ++i) bytes.data<uint8_t>()[i] = uint8_t(i);
  ImageDataset set({bytes, tensor<int64_t>({5, 6, 7, 8})});
  CHECK(set.get(2).input.shape() == Dims{3, 2, 2});
  CHECK(set.get(2).input.to_vector<int64_t>()[0] == 24);
  CHECK(set.get(2).target.shape() == Dims{});
  CHECK(set.get(2).target.item<int64_t>() == 7);
  Subset odd(set, {1, 3});
  CHECK(odd.byte_images() == set.byte_images());
  CHECK(odd.byte_row(1) == 3);
  CHECK(odd.get_batch(Indices{1})->target.to_vector<int64_t>() == Indices{8});
  CHECK_THROWS_AS(set.get(4), Error);
}

TEST_CASE("a batch binds to input and target") {
  Batch b = *TensorDataset(tensor({1.f, 2.f}), tensor({3.f, 4.f})).get_batch(Indices{1});
  auto& [x, y] = b;
  CHECK(x.is_same(b.input));
  CHECK(y.item() == 4);
}
