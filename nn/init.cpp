#include <tandem/core/autograd.h>
#include <tandem/core/copy.h>
#include <tandem/nn/init.h>
#include <tandem/ops/random.h>

#include <cmath>

namespace tandem::nn::init {

double calculate_gain(Nonlinearity nonlinearity, std::optional<double> param) {
  switch (nonlinearity) {
    case Nonlinearity::linear:
    case Nonlinearity::sigmoid: break;
    case Nonlinearity::tanh: return 5. / 3;
    case Nonlinearity::relu: return std::sqrt(2.);
    case Nonlinearity::leaky_relu: {
      const double slope = param.value_or(0.01);
      return std::sqrt(2 / (1 + slope * slope));
    }
    case Nonlinearity::selu: return 0.75;
  }
  return 1;
}

Fans calculate_fan_in_and_fan_out(const Tensor& weight) {
  check<ShapeError>(weight.dim() >= 2, "[init] fans are those of a weight of two dimensions or more, got ",
                    weight.shape());
  int64_t each = 1;
  for (int i = 2; i < weight.dim(); ++i) each *= weight.size(i);
  return {weight.size(1) * each, weight.size(0) * each};
}

Tensor uniform_(Tensor x, double low, double high) {
  NoGradGuard no_grad;
  return tandem::uniform_(x, low, high);
}

Tensor normal_(Tensor x, double mean, double std) {
  NoGradGuard no_grad;
  return tandem::normal_(x, mean, std);
}

Tensor constant_(Tensor x, double value) {
  fill_into(x, value);
  x.storage()->bump();
  return x;
}

Tensor zeros_(Tensor x) { return constant_(std::move(x), 0); }
Tensor ones_(Tensor x) { return constant_(std::move(x), 1); }

// The products are taken in this order, in double, because PyTorch's are: a bound's last bit shows in every weight.
Tensor xavier_uniform_(Tensor x, double gain) {
  const Fans fans = calculate_fan_in_and_fan_out(x);
  const double std = gain * std::sqrt(2. / double(fans.in + fans.out)), bound = std::sqrt(3.) * std;
  return uniform_(std::move(x), -bound, bound);
}

Tensor xavier_normal_(Tensor x, double gain) {
  const Fans fans = calculate_fan_in_and_fan_out(x);
  return normal_(std::move(x), 0, gain * std::sqrt(2. / double(fans.in + fans.out)));
}

namespace {
double kaiming_std(const Tensor& x, const KaimingOptions& o) {
  const Fans fans = calculate_fan_in_and_fan_out(x);
  return calculate_gain(o.nonlinearity, o.a) / std::sqrt(double(o.mode == FanMode::fan_in ? fans.in : fans.out));
}
}  // namespace

Tensor kaiming_uniform_(Tensor x, KaimingOptions o) {
  if (x.numel() == 0) return x;
  const double bound = std::sqrt(3.) * kaiming_std(x, o);
  return uniform_(std::move(x), -bound, bound);
}

Tensor kaiming_normal_(Tensor x, KaimingOptions o) {
  if (x.numel() == 0) return x;
  const double std = kaiming_std(x, o);
  return normal_(std::move(x), 0, std);
}

}  // namespace tandem::nn::init
