/// Losses as modules: `nn::CrossEntropyLoss loss; loss(logits, target).backward();`. Each calls the function of its
/// name in ops/, which says what shapes it takes.
#pragma once
#include <tandem/nn/module.h>
#include <tandem/ops/cross_entropy.h>
#include <tandem/ops/elementwise_loss.h>
#include <tandem/ops/nll_loss.h>

namespace tandem::nn {

struct TANDEM_API Loss : Module {
  virtual Tensor forward(const Tensor& input, const Tensor& target) = 0;
  Tensor operator()(const Tensor& input, const Tensor& target) { return forward(input, target); }
};

/// torch.nn.CrossEntropyLoss. The class weights are a buffer "weight".
struct TANDEM_API CrossEntropyLoss : Loss {
  explicit CrossEntropyLoss(CrossEntropyOptions options = {});
  Tensor forward(const Tensor& logits, const Tensor& target) override;
  CrossEntropyOptions options;
};

/// torch.nn.NLLLoss. The class weights are a buffer "weight".
struct TANDEM_API NLLLoss : Loss {
  explicit NLLLoss(NllLossOptions options = {});
  Tensor forward(const Tensor& log_probs, const Tensor& target) override;
  NllLossOptions options;
};

/// torch.nn.MSELoss
struct TANDEM_API MSELoss : Loss {
  explicit MSELoss(Reduction reduction = Reduction::mean) : reduction(reduction) {}
  Tensor forward(const Tensor& input, const Tensor& target) override;
  const Reduction reduction;
};

/// torch.nn.L1Loss
struct TANDEM_API L1Loss : Loss {
  explicit L1Loss(Reduction reduction = Reduction::mean) : reduction(reduction) {}
  Tensor forward(const Tensor& input, const Tensor& target) override;
  const Reduction reduction;
};

/// torch.nn.SmoothL1Loss
struct TANDEM_API SmoothL1Loss : Loss {
  explicit SmoothL1Loss(SmoothL1Options options = {}) : options(options) {}
  Tensor forward(const Tensor& input, const Tensor& target) override;
  const SmoothL1Options options;
};

/// torch.nn.BCEWithLogitsLoss
struct TANDEM_API BCEWithLogitsLoss : Loss {
  explicit BCEWithLogitsLoss(Reduction reduction = Reduction::mean) : reduction(reduction) {}
  Tensor forward(const Tensor& logits, const Tensor& target) override;
  const Reduction reduction;
};

}  // namespace tandem::nn
