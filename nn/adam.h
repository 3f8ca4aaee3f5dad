/// Adam (torch.optim.Adam) and AdamW (torch.optim.AdamW).
#pragma once
#include <tandem/nn/optimizer.h>

#include <array>

namespace tandem::nn {

struct TANDEM_API AdamGroup final : ParamGroup {
  std::array<double, 2> betas = {};
  double eps = 0;
  bool amsgrad = false;
  std::vector<Option> options() override;
  double* cycled_momentum() override { return &betas[0]; }
};

/// At its t-th update, for each parameter p with gradient g:
///
///     g += weight_decay * p                     (g = -g before, with maximize)
///     m = beta1 * m + (1 - beta1) * g
///     v = beta2 * v + (1 - beta2) * g²          (with amsgrad the largest v so far is used below)
///     p -= lr / (1 - beta1^t) * m / (sqrt(v) / sqrt(1 - beta2^t) + eps)
class TANDEM_API Adam : public Optimizer {
 public:
  struct Options {
    double lr = 1e-3;
    std::array<double, 2> betas = {0.9, 0.999};
    double eps = 1e-8;
    double weight_decay = 0;
    bool amsgrad = false;
    bool maximize = false;
  };

  /// Throws Error for a negative lr, eps or weight decay, a beta outside [0, 1), and for parameters that Optimizer does
  /// not take.
  explicit Adam(std::vector<Tensor> params) : Adam(std::move(params), Options()) {}
  Adam(std::vector<Tensor> params, Options options);
  /// One more group, with options of its own (torch.optim.Optimizer.add_param_group).
  void add_param_group(std::vector<Tensor> params, Options options);

  auto param_groups() {
    return groups_ | std::views::transform([](auto& g) -> AdamGroup& { return static_cast<AdamGroup&>(*g); });
  }

 protected:
  Adam(const char* name, bool decoupled);

 private:
  bool needs_state(const ParamGroup& group, size_t state) const override;
  void write_options(const ParamGroup& group, double* to) const override;
  void update(Table& table) override;
  void count_update(Table& table) const override;
  const char* const name_;
  const bool decoupled_;
};

/// Adam whose weight decay stays out of the gradient: p *= 1 - lr * weight_decay comes first.
class TANDEM_API AdamW : public Adam {
 public:
  struct Options {
    double lr = 1e-3;
    std::array<double, 2> betas = {0.9, 0.999};
    double eps = 1e-8;
    double weight_decay = 1e-2;
    bool amsgrad = false;
    bool maximize = false;
  };

  /// Throws as Adam does.
  explicit AdamW(std::vector<Tensor> params) : AdamW(std::move(params), Options()) {}
  AdamW(std::vector<Tensor> params, Options options);
  void add_param_group(std::vector<Tensor> params, Options options);
};

}  // namespace tandem::nn
