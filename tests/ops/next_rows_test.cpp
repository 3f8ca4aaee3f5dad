#include <tandem/core/tensor.h>
#include <tandem/ops/next_rows.h>

#include <doctest/doctest.h>

using namespace tandem;

TEST_CASE("next_rows takes columns, and moves the cursor behind them") {
  Tensor lists = arange(0, 2 * 700).reshape({2, 700}), cursor = tensor<int64_t>({5, 8, 9});
  CHECK(next_rows(lists, cursor, 2).to_vector<int64_t>() == std::vector<int64_t>{5, 6, 705, 706});
  const uint32_t version = cursor.storage()->version;
  Tensor many = next_rows(lists, cursor, 600);
  CHECK(cursor.storage()->version > version);
  CHECK(many.shape() == Dims{2, 600});
  auto v = many.to_vector<int64_t>();
  for (int64_t i = 0; i < 600; ++i) {
    CHECK(v[size_t(i)] == 7 + i);
    CHECK(v[size_t(600 + i)] == 707 + i);
  }
  CHECK(cursor.to_vector<int64_t>() == std::vector<int64_t>{607, 8, 9});
  CHECK(next_rows(lists, cursor, 0).shape() == Dims{2, 0});
}

TEST_CASE("next_rows says what does not fit") {
  Tensor lists = zeros({1, 4}, {.dtype = Dtype::i64}), cursor = tensor<int64_t>({3, 0, 0});
  CHECK_THROWS_AS(next_rows(lists, cursor, 2).to_vector(), Error);
  CHECK_THROWS_AS(next_rows(zeros({1, 4}), cursor, 1), DtypeError);
  CHECK_THROWS_AS(next_rows(zeros({4}, {.dtype = Dtype::i64}), cursor, 1), ShapeError);
  Tensor pair = tensor<int64_t>({0, 0});
  CHECK_THROWS_AS(next_rows(lists, pair, 1), ShapeError);
}
