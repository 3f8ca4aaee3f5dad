#include "tests/support/child.h"

#include <tandem/core/context.h>
#include <tandem/core/tensor.h>
#include <tandem/ops/binary.h>
#include <tandem/ops/linear.h>

#include <doctest/doctest.h>

using namespace tandem;
using namespace tandem::test;

TEST_CASE("devices as text") {
  CHECK(to_string(cpu()) == "cpu:0");
  CHECK(to_string(cuda(3)) == "cuda:3");
  CHECK(parse_device("cpu") == cpu(0));
  CHECK(parse_device("cpu:7") == cpu(7));
  CHECK(parse_device("cuda") == cuda(0));
  CHECK(parse_device("cuda:63") == cuda(63));
  for (const char* bad : {"", "gpu", "cpu:", "cpu:x", "cpu:-1", "cpu:64", "cpu:1 ", "cpu:99999999999", "CPU"}) {
    CAPTURE(bad);
    CHECK_THROWS_WITH_AS(parse_device(bad), doctest::Contains("is no device"), DeviceError);
  }
}

TEST_CASE("as many CPU devices as asked for, never fewer again") {
  set_cpu_devices(3);
  const int n = device_count(DeviceKind::cpu);
  CHECK(n >= 3);
  set_cpu_devices(1);
  CHECK(device_count(DeviceKind::cpu) == n);
  CHECK_NOTHROW(require_device(cpu(n - 1)));
  CHECK_THROWS_WITH_AS(
      require_device(cpu(n)),
      message("cpu:", n, ": there are ", n, " CPU devices (TANDEM_CPU_DEVICES or set_cpu_devices asks for more)")
          .c_str(),
      DeviceError);
  CHECK_THROWS_AS(zeros({2}, {.device = cpu(63)}), DeviceError);
  CHECK_THROWS_AS(set_cpu_devices(0), DeviceError);
  CHECK_THROWS_WITH_AS(set_cpu_devices(65), "set_cpu_devices: from 1 to 64, got 65", DeviceError);
}

TEST_CASE("tensors of two CPU devices do not meet in an op") {
  set_cpu_devices(2);
  Tensor a = ones({3}), b = ones({3}, {.device = cpu(1)});
  CHECK_THROWS_WITH_AS(add(a, b), "[add] one tensor is on cpu:0, another on cpu:1: to(device) copies", DeviceError);
  CHECK_THROWS_AS(linear(ones({2, 3}), ones({4, 3}, {.device = cpu(1)})), DeviceError);
  CHECK(add(a.to(cpu(1)), b).device() == cpu(1));
  CHECK(add(a.to(cpu(1)), b).to_vector() == std::vector<float>(3, 2.f));
}

TEST_CASE("the context's device is where new tensors go") {
  set_cpu_devices(2);
  {
    DeviceGuard on(cpu(1));
    CHECK(current_device() == cpu(1));
    CHECK(zeros({2}).device() == cpu(1));
    CHECK(tensor({1.f}).device() == cpu(1));
    CHECK(arange(0, 3).device() == cpu(1));
    CHECK(zeros({2}, {.device = cpu(0)}).device() == cpu(0));
  }
  CHECK(zeros({2}).device() == cpu(0));
  CHECK_THROWS_AS(DeviceGuard(cpu(63)), DeviceError);
  CHECK(current_device() == cpu(0));
}

TEST_CASE("without a backend there is no CUDA, and that is what is said") {
  CHECK(device_count(DeviceKind::cuda) == 0);
  CHECK_THROWS_WITH_AS(require_device(cuda()),
                       "cuda:0: this library was built without CUDA (-DTANDEM_CUDA=ON builds it)", DeviceError);
  CHECK_THROWS_AS(zeros({2}, {.device = cuda()}), DeviceError);
  CHECK_THROWS_AS(ones({2}).to(cuda()), DeviceError);
}

TEST_CASE("child: three CPU devices" * doctest::skip()) { CHECK(device_count(DeviceKind::cpu) == 3); }
TEST_CASE("child: one CPU device" * doctest::skip()) { CHECK(device_count(DeviceKind::cpu) == 1); }

TEST_CASE("TANDEM_CPU_DEVICES asks for devices, too") {
  CHECK(passes_in_child("child: three CPU devices", {{"TANDEM_CPU_DEVICES", "3"}}));
  CHECK(passes_in_child("child: one CPU device", {{"TANDEM_CPU_DEVICES", "many"}}));
}
