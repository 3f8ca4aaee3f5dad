/// One declaration per op, many checks from it. An OpCase says how to call the op, what goes in, and (where there is a
/// plain formula) what comes out; check_op derives the rest:
///   - forward in f64 against the reference, and in f32 against f64
///   - gradients in f64 against central differences
///   - f32, f16 and bf16 against f64 (f16 and bf16 to their own rounding)
///   - the same bits for row-major, channels-last and strided inputs, and for 1 and 2 threads
///     (at the float32 tolerance where a library computes: `.library = true`)
///   - the same bits for an upstream gradient that is strided, in another layout, or one value expanded
///   - sentinels around every buffer intact, fresh memory never read
///   - on another device than the CPU (support/test_device.h): f64 against the CPU
///   - accumulation: a gradient window of NaN that is fresh is overwritten (beta 0 does not read), and a second
///     backward doubles it (beta 1 adds)
#pragma once
#include <tandem/core/autograd.h>
#include <tandem/core/tensor.h>

#include <functional>
#include <string>
#include <vector>

namespace tandem::test {

struct Input {
  Dims shape;
  double low = -1, high = 1;  // uniform values; integers from [low, high)
  Dtype dtype = Dtype::f64;   // f64 stands for "the floating type under test"; an integer or bool type stays
  bool grad = true;           // floating inputs only
  /// Values are kept at least this far from `kink + k * kink_period` (period 0: from kink alone).
  double gap = 0;
  double kink = 0;
  std::vector<double> values = {};  // given instead of drawn, row-major
};

struct OpCase {
  std::string name;
  std::vector<Input> inputs;
  std::function<Tensor(const std::vector<Tensor>&)> run;
  /// The expected values in row-major order from inputs in row-major order; may be left out where another case covers
  /// it.
  std::function<std::vector<double>(const std::vector<std::vector<double>>&)> reference = {};
  bool library = false;          // a library computes: layouts and threads agree to a tolerance, not to the bit
  bool half = true;              // also in f16 and bf16
  bool layouts = true;           // also with channels-last and strided inputs
  double tolerance = 1e-5;       // f32 against f64: |a-b| <= tolerance + 10 * tolerance * |b|
  double half_tolerance = 2e-2;  // bf16 and f16 against f64 on the rounded inputs, relative to the largest magnitude
};

/// Runs every check as doctest CHECKs. The seed of the inputs is part of the messages (TANDEM_TEST_SEED sets it).
void check_op(const OpCase& c);

/// Uniform values drawn from the tests' own generator.
Tensor random_tensor(const Dims& shape, TensorOptions o = {.dtype = Dtype::f64}, double low = -1, double high = 1);
uint64_t test_seed();
double max_difference(const Tensor& a, const Tensor& b);
bool same_bits(const Tensor& a, const Tensor& b);

}  // namespace tandem::test
