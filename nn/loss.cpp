#include <tandem/nn/loss.h>

namespace tandem::nn {

CrossEntropyLoss::CrossEntropyLoss(CrossEntropyOptions o) : options(std::move(o)) {
  add_buffer("weight", options.weight);
}
NLLLoss::NLLLoss(NllLossOptions o) : options(std::move(o)) { add_buffer("weight", options.weight); }

Tensor CrossEntropyLoss::forward(const Tensor& logits, const Tensor& target) {
  return cross_entropy(logits, target, options);
}
Tensor NLLLoss::forward(const Tensor& log_probs, const Tensor& target) { return nll_loss(log_probs, target, options); }
Tensor MSELoss::forward(const Tensor& input, const Tensor& target) { return mse_loss(input, target, reduction); }
Tensor L1Loss::forward(const Tensor& input, const Tensor& target) { return l1_loss(input, target, reduction); }
Tensor SmoothL1Loss::forward(const Tensor& input, const Tensor& target) {
  return smooth_l1_loss(input, target, options);
}
Tensor BCEWithLogitsLoss::forward(const Tensor& logits, const Tensor& target) {
  return binary_cross_entropy_with_logits(logits, target, reduction);
}

}  // namespace tandem::nn
