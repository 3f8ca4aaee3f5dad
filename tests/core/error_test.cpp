#include <tandem/core/device.h>
#include <tandem/core/dtype.h>
#include <tandem/core/error.h>
#include <tandem/core/shape.h>

#include <doctest/doctest.h>

using namespace tandem;

TEST_CASE("messages are put together from anything that has a to_string") {
  CHECK(message("[conv2d] ", 64, ' ', true, " ", 0.5, " ", Dims{2, 3}, " ", Dtype::bf16, " ", cpu(1),
                std::string(" end"), std::string_view("!")) == "[conv2d] 64 true 0.5 [2,3] bf16 cpu:1 end!");
  CHECK(message() == "");
  CHECK(message(size_t(18446744073709551615ull)) == "18446744073709551615");
  CHECK(message(1e-20) == "1e-20");
}

TEST_CASE("check throws the error that was asked for, and all are Errors") {
  CHECK_NOTHROW(check(true, "not read"));
  CHECK_THROWS_WITH_AS(check(false, "a ", 1), "a 1", Error);
  CHECK_THROWS_WITH_AS(check<ShapeError>(false, "b"), "b", ShapeError);
  CHECK_THROWS_AS(throw OutOfMemoryError("c"), DeviceError);
  for (auto raise : {+[] { throw ShapeError(""); }, +[] { throw DtypeError(""); }, +[] { throw DeviceError(""); },
                     +[] { throw IoError(""); }, +[] { throw CommError(""); }})
    CHECK_THROWS_AS(raise(), Error);
}
