/// Stochastic gradient descent with momentum (torch.optim.SGD).
#pragma once
#include <tandem/nn/optimizer.h>

namespace tandem::nn {

struct TANDEM_API SGDGroup final : ParamGroup {
  double momentum = 0, dampening = 0;
  bool nesterov = false;
  std::vector<Option> options() override;
  double* cycled_momentum() override { return &momentum; }
};

/// For each parameter p with gradient g:
///
///     g += weight_decay * p                       (g = -g before, with maximize)
///     buf = momentum * buf + (1 - dampening) * g  (the first time buf = g)
///     p -= lr * (nesterov ? g + momentum * buf : buf)
class TANDEM_API SGD : public Optimizer {
 public:
  struct Options {
    double lr = 1e-3;
    double momentum = 0;
    double dampening = 0;
    double weight_decay = 0;
    bool nesterov = false;
    bool maximize = false;
  };

  /// Throws Error for a negative lr, momentum or weight decay, for nesterov without momentum or with dampening, and for
  /// parameters that Optimizer does not take.
  explicit SGD(std::vector<Tensor> params) : SGD(std::move(params), Options()) {}
  SGD(std::vector<Tensor> params, Options options);
  /// One more group, with options of its own (torch.optim.Optimizer.add_param_group).
  void add_param_group(std::vector<Tensor> params, Options options);

  auto param_groups() {
    return groups_ | std::views::transform([](auto& g) -> SGDGroup& { return static_cast<SGDGroup&>(*g); });
  }

 private:
  bool needs_state(const ParamGroup& group, size_t state) const override;
  void write_options(const ParamGroup& group, double* to) const override;
  void update(Table& table) override;
  void count_update(Table& table) const override;
};

}  // namespace tandem::nn
