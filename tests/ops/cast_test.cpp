#include "tests/support/op_case.h"
#include "tests/support/test_device.h"

#include <tandem/ops/cast.h>
#include <tandem/ops/view.h>

#include <doctest/doctest.h>

using namespace tandem;
using namespace tandem::test;

TEST_CASE("clone") {
  check_op({.name = "clone",
            .inputs = {{.shape = {2, 3, 4, 5}}},
            .run = [](auto& in) { return clone(in[0]); },
            .reference = [](auto& in) { return in[0]; }});
  Tensor x = random_tensor({2, 3, 4, 5}, {.layout = Layout::channels_last});
  Tensor y = x.clone();
  CHECK(y.storage().get() != x.storage().get());
  CHECK(y.layout() == Layout::channels_last);
  CHECK(x.permute({3, 2, 1, 0}).clone().is_contiguous());
}

TEST_CASE("to converts, and gradients come back in the dtype they left from") {
  Tensor x = tensor({1.5f, -2.75f, 300.f}, {.requires_grad = true});
  CHECK(x.to(Dtype::f32).is_same(x));
  Tensor y = x.to(Dtype::f64);
  CHECK(y.dtype() == Dtype::f64);
  CHECK(y.to_vector<double>() == std::vector<double>{1.5, -2.75, 300});
  y.backward(tensor({1.0, 2.0, 3.0}));
  CHECK(x.grad().dtype() == Dtype::f32);
  CHECK(x.grad().to_vector() == std::vector<float>{1, 2, 3});
  Tensor n = x.to(Dtype::i32);
  CHECK(!n.requires_grad());
  CHECK(n.to_vector<int32_t>() == std::vector<int32_t>{1, -2, 300});
  CHECK(n.to(Dtype::boolean).to_vector<bool>() == std::vector<bool>{true, true, true});
}

TEST_CASE("to another device and back") {
  set_cpu_devices(2);
  const Device here = test_device();
  Tensor x = random_tensor({2, 3, 4, 5}, {.layout = Layout::channels_last, .requires_grad = true});
  Tensor y = x.to(cpu(1));
  CHECK(y.device() == cpu(1));
  CHECK(y.layout() == Layout::channels_last);
  CHECK(y.to(cpu(1)).is_same(y));
  CHECK(same_bits(x, y.to(here)));
  y.backward(ones({2, 3, 4, 5}, {.device = cpu(1)}));
  CHECK(x.grad().device() == here);
  CHECK(x.grad().to_vector() == std::vector<float>(120, 1.f));
  CHECK_THROWS_AS(x.to(cpu(40)), DeviceError);
}
