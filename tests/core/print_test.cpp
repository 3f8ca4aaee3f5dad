#include "tests/support/op_case.h"

#include <tandem/ops/relu.h>

#include <doctest/doctest.h>

#include <cmath>
#include <sstream>

using namespace tandem;
using namespace tandem::test;

// Each expected text is what PyTorch prints, but for the spelling of dtypes and of grad_fn.

TEST_CASE("numbers are whole, or have four decimals, or an exponent") {
  CHECK(to_string(from_vector<float>({1, 2, 3, 4}, {2, 2})) == "tensor([[1., 2.],\n        [3., 4.]])");
  CHECK(to_string(tensor({1.5f, -2.f, 100.f})) == "tensor([  1.5000,  -2.0000, 100.0000])");
  CHECK(to_string(tensor({0.1f, 0.22345f})) == "tensor([0.1000, 0.2235])");
  CHECK(to_string(tensor({1.f, -10.f, 1000.f})) == "tensor([   1.,  -10., 1000.])");
  CHECK(to_string(tensor({1.f, 1001.f})) == "tensor([1.0000e+00, 1.0010e+03])");
  CHECK(to_string(tensor({0.00001f, 0.5f})) == "tensor([1.0000e-05, 5.0000e-01])");
  CHECK(to_string(tensor({0.00005f})) == "tensor([5.0000e-05])");
  CHECK(to_string(tensor({2e8f})) == "tensor([2.0000e+08])");
  CHECK(to_string(tensor({0.f, 0.f})) == "tensor([0., 0.])");
  CHECK(to_string(tensor({0.f, 0.5f, -0.f})) == "tensor([0.0000, 0.5000, -0.0000])");
}

TEST_CASE("what is not finite") {
  CHECK(to_string(tensor({float(NAN), 1.5f})) == "tensor([   nan, 1.5000])");
  CHECK(to_string(tensor({float(INFINITY), 1.f, -float(INFINITY)})) == "tensor([inf, 1., -inf])");
  CHECK(to_string(tensor({-float(NAN)})) == "tensor([nan])");
  CHECK(to_string(tensor({float(NAN), 1e-8f})) == "tensor([       nan, 1.0000e-08])");
}

TEST_CASE("integers and bools") {
  CHECK(to_string(tensor({int64_t(1), int64_t(-20)})) == "tensor([  1, -20])");
  CHECK(to_string(tensor({true, false})) == "tensor([ True, False])");
  CHECK(to_string(tensor({int32_t(7)})) == "tensor([7], dtype=i32)");
  CHECK(to_string(tensor({uint8_t(255)})) == "tensor([255], dtype=u8)");
}

TEST_CASE("scalars and empty tensors") {
  CHECK(to_string(full({}, 3)) == "tensor(3.)");
  CHECK(to_string(full({}, 3.25)) == "tensor(3.2500)");
  CHECK(to_string(full({}, 5, {.dtype = Dtype::i64})) == "tensor(5)");
  CHECK(to_string(zeros({0})) == "tensor([])");
  CHECK(to_string(zeros({0, 3})) == "tensor([], size=(0, 3))");
  CHECK(to_string(zeros({2, 0}, {.dtype = Dtype::i64})) == "tensor([], size=(2, 0), dtype=i64)");
  CHECK(to_string(zeros({0}, {.dtype = Dtype::boolean})) == "tensor([], dtype=bool)");
  CHECK(to_string(Tensor()) == "tensor(undefined)");
}

TEST_CASE("dtype, device and gradient stand after the numbers") {
  CHECK(to_string(tensor({1.0, 2.5})) == "tensor([1.0000, 2.5000], dtype=f64)");
  CHECK(to_string(tensor({f16(1.5f)})) == "tensor([1.5000], dtype=f16)");
  CHECK(to_string(tensor({bf16(3.f)})) == "tensor([3.], dtype=bf16)");
  set_cpu_devices(2);
  CHECK(to_string(tensor({1.f}, {.device = cpu(1)})) == "tensor([1.], device='cpu:1')");
  Tensor x = tensor({1.f}, {.requires_grad = true});
  CHECK(to_string(x) == "tensor([1.], requires_grad=True)");
  CHECK(to_string(relu(x)) == "tensor([1.], grad_fn=<relu>)");
  CHECK(to_string(x.detach()) == "tensor([1.])");
  Tensor y = tensor({1.0}, {.device = cpu(1), .requires_grad = true});
  CHECK(to_string(y) == "tensor([1.], device='cpu:1', dtype=f64, requires_grad=True)");
}

TEST_CASE("a suffix that does not fit the line goes to the next") {
  CHECK(to_string(full({8}, 0.5, {.dtype = Dtype::f64})) ==
        "tensor([0.5000, 0.5000, 0.5000, 0.5000, 0.5000, 0.5000, 0.5000, 0.5000],\n       dtype=f64)");
  CHECK(to_string(full({7}, 0.5, {.dtype = Dtype::f64})) ==
        "tensor([0.5000, 0.5000, 0.5000, 0.5000, 0.5000, 0.5000, 0.5000], dtype=f64)");
}

TEST_CASE("long rows are broken at 80 columns, blocks are set apart by empty lines") {
  CHECK(to_string(full({10}, 0.5)) ==
        "tensor([0.5000, 0.5000, 0.5000, 0.5000, 0.5000, 0.5000, 0.5000, 0.5000, 0.5000,\n        0.5000])");
  CHECK(to_string(arange(0, 20)) ==
        "tensor([ 0,  1,  2,  3,  4,  5,  6,  7,  8,  9, 10, 11, 12, 13, 14, 15, 16, 17,\n        18, 19])");
  CHECK(to_string(full({1, 10}, 0.5)) ==
        "tensor([[0.5000, 0.5000, 0.5000, 0.5000, 0.5000, 0.5000, 0.5000, 0.5000, 0.5000,\n         0.5000]])");
  CHECK(to_string(from_vector<float>({1, 2, 3, 4, 5, 6, 7, 8}, {2, 2, 2})) ==
        "tensor([[[1., 2.],\n         [3., 4.]],\n\n        [[5., 6.],\n         [7., 8.]]])");
  // Zeros count as one column wide, so 24 of them share a line that is too long.
  std::string line = "tensor([0.";
  for (int i = 1; i < 24; ++i) line += ", 0.";
  CHECK(to_string(zeros({25})) == line + ",\n        0.])");
}

TEST_CASE("beyond 1000 elements only the edges are shown") {
  CHECK(to_string(arange(0, 1001)) == "tensor([   0,    1,    2,  ...,  998,  999, 1000])");
  CHECK(to_string(arange(0, 1000)).find("...") == std::string::npos);
  CHECK(to_string(arange(0, 1200, 1, {.dtype = Dtype::f32}).alias({12, 100}, {100, 1}, 0)) ==
        "tensor([[0.0000e+00, 1.0000e+00, 2.0000e+00,  ..., 9.7000e+01, 9.8000e+01,\n"
        "         9.9000e+01],\n"
        "        [1.0000e+02, 1.0100e+02, 1.0200e+02,  ..., 1.9700e+02, 1.9800e+02,\n"
        "         1.9900e+02],\n"
        "        [2.0000e+02, 2.0100e+02, 2.0200e+02,  ..., 2.9700e+02, 2.9800e+02,\n"
        "         2.9900e+02],\n"
        "        ...,\n"
        "        [9.0000e+02, 9.0100e+02, 9.0200e+02,  ..., 9.9700e+02, 9.9800e+02,\n"
        "         9.9900e+02],\n"
        "        [1.0000e+03, 1.0010e+03, 1.0020e+03,  ..., 1.0970e+03, 1.0980e+03,\n"
        "         1.0990e+03],\n"
        "        [1.1000e+03, 1.1010e+03, 1.1020e+03,  ..., 1.1970e+03, 1.1980e+03,\n"
        "         1.1990e+03]])");
  CHECK(to_string(zeros({2, 1000, 2})) ==
        "tensor([[[0., 0.],\n         [0., 0.],\n         [0., 0.],\n         ...,\n"
        "         [0., 0.],\n         [0., 0.],\n         [0., 0.]],\n\n"
        "        [[0., 0.],\n         [0., 0.],\n         [0., 0.],\n         ...,\n"
        "         [0., 0.],\n         [0., 0.],\n         [0., 0.]]])");
  // What is not shown does not choose the format.
  Tensor x = ones({2000});
  x.data<float>()[1000] = 0.123f;
  CHECK(to_string(x) == "tensor([1., 1., 1.,  ..., 1., 1., 1.])");
}

TEST_CASE("printing is in row-major order whatever the layout, and goes to streams") {
  std::vector<float> v{0, 1, 2, 3, 4, 5, 6, 7};
  Tensor x = from_vector(v, {1, 2, 2, 2}), y = from_vector(v, {1, 2, 2, 2}, {.layout = Layout::channels_last});
  CHECK(to_string(x) == to_string(y));
  std::ostringstream out;
  out << tensor({1.f});
  CHECK(out.str() == "tensor([1.])");
}
