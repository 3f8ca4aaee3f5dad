/// Initial values (torch.nn.init), drawn from default_generator() in row-major order whatever the layout: the same seed
/// gives PyTorch's numbers. Each fills the tensor in place, recorded by nothing, and returns it.
#pragma once
#include <tandem/core/tensor.h>

#include <optional>

namespace tandem::nn::init {

enum class FanMode : uint8_t { fan_in, fan_out };
enum class Nonlinearity : uint8_t { linear, sigmoid, tanh, relu, leaky_relu, selu };

/// What a nonlinearity wants weights to be multiplied by. `param`: leaky_relu's negative slope, 0.01 if left out.
TANDEM_API double calculate_gain(Nonlinearity nonlinearity, std::optional<double> param = {});

struct Fans {
  int64_t in, out;
};
/// Inputs and outputs of a weight [out, in, ...]: its first two sizes times the rest. Throws ShapeError below two
/// dimensions.
TANDEM_API Fans calculate_fan_in_and_fan_out(const Tensor& weight);

TANDEM_API Tensor uniform_(Tensor x, double low = 0, double high = 1);
TANDEM_API Tensor normal_(Tensor x, double mean = 0, double std = 1);
TANDEM_API Tensor constant_(Tensor x, double value);
TANDEM_API Tensor zeros_(Tensor x);
TANDEM_API Tensor ones_(Tensor x);

/// Uniform in ±gain * sqrt(6 / (fan_in + fan_out)).
TANDEM_API Tensor xavier_uniform_(Tensor x, double gain = 1);
/// Normal with deviation gain * sqrt(2 / (fan_in + fan_out)).
TANDEM_API Tensor xavier_normal_(Tensor x, double gain = 1);

struct KaimingOptions {
  double a = 0;  // leaky_relu's negative slope
  FanMode mode = FanMode::fan_in;
  Nonlinearity nonlinearity = Nonlinearity::leaky_relu;
};
/// Uniform in ±gain * sqrt(3 / fan).
TANDEM_API Tensor kaiming_uniform_(Tensor x, KaimingOptions options = {});
/// Normal with deviation gain / sqrt(fan).
TANDEM_API Tensor kaiming_normal_(Tensor x, KaimingOptions options = {});

}  // namespace tandem::nn::init
