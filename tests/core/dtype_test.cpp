#include <tandem/core/dtype.h>

#include <doctest/doctest.h>

#include <cmath>
#include <cstring>
#include <limits>

using namespace tandem;

namespace {

constexpr Dtype kAll[] = {Dtype::f32, Dtype::f64, Dtype::f16, Dtype::bf16,
                          Dtype::i64, Dtype::i32, Dtype::u8,  Dtype::boolean};

template <class T>
T from_bits(uint32_t bits) {
  T v;
  v.bits = uint16_t(bits);
  return v;
}

// The value of 16 bits by the definition of the format.
double by_definition(uint32_t bits, int exponent_bits, int mantissa_bits) {
  const double sign = bits >> 15 ? -1 : 1;
  const uint32_t mantissa = bits & ((1u << mantissa_bits) - 1);
  const uint32_t exponent = bits >> mantissa_bits & ((1u << exponent_bits) - 1);
  const int bias = (1 << (exponent_bits - 1)) - 1;
  if (exponent == (1u << exponent_bits) - 1) return mantissa ? NAN : sign * INFINITY;
  if (exponent == 0) return sign * std::ldexp(double(mantissa), 1 - bias - mantissa_bits);
  return sign * std::ldexp(double(mantissa | 1u << mantissa_bits), int(exponent) - bias - mantissa_bits);
}

template <class T>
void check_all_values(int exponent_bits, int mantissa_bits) {
  for (uint32_t bits = 0; bits < 65536; ++bits) {
    const float f = from_bits<T>(bits);
    const double want = by_definition(bits, exponent_bits, mantissa_bits);
    CAPTURE(bits);
    if (std::isnan(want)) {
      REQUIRE(std::isnan(f));
      REQUIRE(std::isnan(float(T(f))));
    } else {
      REQUIRE(double(f) == want);
      REQUIRE(std::signbit(f) == std::signbit(want));
      REQUIRE(T(f).bits == bits);
    }
  }
}

// Between each value and the next: the middle goes to the even one, everything else to the nearer.
template <class T>
void check_rounding(uint32_t infinity) {
  for (uint32_t low = 0; low < infinity; ++low)
    for (uint32_t sign : {0u, 0x8000u}) {
      const float a = from_bits<T>(low | sign);
      const double step = double(a) - (low ? double(float(from_bits<T>((low - 1) | sign))) : 0);
      // The value after the largest one is where infinity begins.
      const double b = low + 1 < infinity ? double(float(from_bits<T>((low + 1) | sign))) : double(a) + step;
      const auto middle = float((double(a) + b) / 2);
      CAPTURE(low);
      REQUIRE(double(middle) == (double(a) + b) / 2);
      REQUIRE(T(middle).bits == ((low % 2 ? low + 1 : low) | sign));
      REQUIRE(T(std::nextafter(middle, a)).bits == (low | sign));
      REQUIRE(T(std::nextafter(middle, float(b))).bits == ((low + 1) | sign));
    }
}

}  // namespace

TEST_CASE("f16: all values by the format's definition, there and back") { check_all_values<f16>(5, 10); }
TEST_CASE("bf16: all values by the format's definition, there and back") { check_all_values<bf16>(8, 7); }
TEST_CASE("f16 rounds to nearest, ties to even, everywhere") { check_rounding<f16>(0x7c00); }
TEST_CASE("bf16 rounds to nearest, ties to even, everywhere") { check_rounding<bf16>(0x7f80); }

TEST_CASE("f16 at its ends") {
  CHECK(float(f16(65504.f)) == 65504.f);
  CHECK(float(f16(65519.996f)) == 65504.f);
  CHECK(float(f16(65520.f)) == INFINITY);
  CHECK(float(f16(-1e30f)) == -INFINITY);
  CHECK(float(f16(float(INFINITY))) == INFINITY);
  const float tiny = std::ldexp(1.f, -24);  // the smallest subnormal
  CHECK(float(f16(tiny)) == tiny);
  CHECK(float(f16(tiny / 2)) == 0);
  CHECK(float(f16(std::nextafter(tiny / 2, 1.f))) == tiny);
  CHECK(f16(-tiny / 4).bits == 0x8000);
  CHECK(f16(std::numeric_limits<float>::denorm_min()).bits == 0);
}

TEST_CASE("bf16 at its ends") {
  CHECK(float(bf16(std::numeric_limits<float>::max())) == INFINITY);
  CHECK(float(bf16(std::numeric_limits<float>::denorm_min())) == 0);
  // A NaN whose payload lies in the lower bits alone must not become infinity.
  CHECK(std::isnan(float(bf16(std::bit_cast<float>(0x7f800001u)))));
  CHECK(std::isnan(float(bf16(std::bit_cast<float>(0xff800001u)))));
}

TEST_CASE("names of dtypes") {
  for (Dtype t : kAll) CHECK(parse_dtype(to_string(t)) == t);
  CHECK(to_string(Dtype::boolean) == "bool");
  CHECK(parse_dtype("float32") == Dtype::f32);
  CHECK(parse_dtype("bfloat16") == Dtype::bf16);
  CHECK(parse_dtype("half") == Dtype::f16);
  CHECK(parse_dtype("long") == Dtype::i64);
  CHECK_THROWS_WITH_AS(parse_dtype("f8"), "\"f8\" is no dtype: f32, f64, f16, bf16, i64, i32, u8 or bool", DtypeError);
}

TEST_CASE("sizes and kinds") {
  for (Dtype t : kAll) {
    const size_t size = dispatch_all(t, [](auto v) { return sizeof v; });
    CHECK(size_of(t) == size);
    CHECK(dispatch_all(t, [](auto v) { return dtype_of<decltype(v)>; }) == t);
    CHECK(is_floating(t) == (t == Dtype::f32 || t == Dtype::f64 || t == Dtype::f16 || t == Dtype::bf16));
    CHECK(is_half(t) == (is_floating(t) && size == 2));
  }
}

// torch.promote_types.
TEST_CASE("promotion") {
  using enum Dtype;
  struct Row {
    Dtype a, b, both;
  };
  const Row rows[] = {{boolean, u8, u8}, {boolean, f16, f16}, {u8, i32, i32},   {i32, i64, i64},    {i64, f16, f16},
                      {i64, bf16, bf16}, {i64, f32, f32},     {f16, bf16, f32}, {f16, f32, f32},    {bf16, f32, f32},
                      {f32, f64, f64},   {i64, f64, f64},     {u8, i64, i64},   {boolean, i64, i64}};
  for (auto& r : rows) {
    CHECK(promote(r.a, r.b) == r.both);
    CHECK(promote(r.b, r.a) == r.both);
  }
  for (Dtype t : kAll) CHECK(promote(t, t) == t);
}

TEST_CASE("dispatch_real takes what kernels compute in") {
  CHECK(dispatch_real("op", Dtype::f64, [](auto v) { return sizeof v; }) == 8);
  CHECK_THROWS_WITH_AS(dispatch_real("op", Dtype::f16, [](auto) {}), "[op] takes f32 or f64 here, got f16", DtypeError);
}
