#include <tandem/core/shape.h>

#include <doctest/doctest.h>

using namespace tandem;

TEST_CASE("Dims") {
  Dims d{2, 3};
  d.push_back(5);
  d.insert(1, 7);
  CHECK(d == Dims{2, 7, 3, 5});
  d.erase(0);
  CHECK(d == Dims{7, 3, 5});
  CHECK(d.numel() == 105);
  CHECK(Dims{}.numel() == 1);
  CHECK(Dims{4, 0}.numel() == 0);
  CHECK(d.back() == 5);
  CHECK(d.vec() == std::vector<int64_t>{7, 3, 5});
  CHECK_FALSE(Dims{2} == Dims{2, 1});
  CHECK(to_string(d) == "[7,3,5]");
  CHECK(to_string(Dims{}) == "[]");
  CHECK_THROWS_WITH_AS((Dims{1, 1, 1, 1, 1, 1, 1, 1, 1}), "a tensor has at most 8 dimensions", ShapeError);
}

TEST_CASE("dense strides") {
  CHECK(dense_strides({2, 3, 4}, Layout::row_major) == Dims{12, 4, 1});
  CHECK(dense_strides({2, 3, 4, 5}, Layout::channels_last) == Dims{60, 1, 15, 3});
  CHECK(dense_strides({2, 3, 4}, Layout::channels_last) == Dims{12, 4, 1});
  CHECK(dense_strides({}, Layout::row_major) == Dims{});
  CHECK(to_string(Layout::channels_last) == "channels_last");
}

TEST_CASE("what counts as dense") {
  CHECK(is_dense({2, 3}, {3, 1}, Layout::row_major));
  CHECK_FALSE(is_dense({2, 3}, {1, 2}, Layout::row_major));
  CHECK_FALSE(is_dense({2, 3}, {6, 2}, Layout::row_major));
  CHECK_FALSE(is_dense({2, 3}, {3, 1}, Layout::channels_last));
  CHECK(is_dense({2, 3, 4, 5}, {60, 1, 15, 3}, Layout::channels_last));
  CHECK_FALSE(is_dense({2, 3, 4, 5}, {60, 1, 15, 3}, Layout::row_major));
  // Sizes of 1 may have any stride, and an empty tensor is dense in every layout.
  CHECK(is_dense({2, 1, 3}, {3, 99, 1}, Layout::row_major));
  CHECK(is_dense({2, 1, 4, 5}, {20, 1, 5, 1}, Layout::row_major));
  CHECK(is_dense({2, 1, 4, 5}, {20, 1, 5, 1}, Layout::channels_last));
  CHECK(is_dense({0, 3}, {7, 7}, Layout::row_major));
  CHECK(is_dense({}, {}, Layout::row_major));
}

TEST_CASE("dimensions count from the end, too") {
  CHECK(wrap_dim("op", -1, 3) == 2);
  CHECK(wrap_dim("op", 0, 3) == 0);
  CHECK(wrap_dim("op", -1, 0) == 0);  // a scalar counts as one dimension
  CHECK_THROWS_WITH_AS(wrap_dim("op", 3, 3), "[op] dimension 3 of a tensor of 3 dimensions", ShapeError);
  CHECK_THROWS_AS(wrap_dim("op", -4, 3), ShapeError);
  CHECK_THROWS_AS(wrap_dim("op", 1, 0), ShapeError);
}

TEST_CASE("broadcasting") {
  CHECK(broadcast_shapes("op", {2, 1, 4}, {3, 1}) == Dims{2, 3, 4});
  CHECK(broadcast_shapes("op", {}, {2, 3}) == Dims{2, 3});
  CHECK(broadcast_shapes("op", {1}, {0}) == Dims{0});
  CHECK(broadcast_shapes("op", {0, 3}, {3}) == Dims{0, 3});
  CHECK_THROWS_WITH_AS(broadcast_shapes("add", {2, 3}, {4}),
                       "[add] [2,3] and [4] do not broadcast: 3 against 4 at dimension -1", ShapeError);
  CHECK_THROWS_AS(broadcast_shapes("add", {2}, {0}), ShapeError);
}
