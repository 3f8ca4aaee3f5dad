/// Backward, and the modes it and the tape run in.
#pragma once
#include <tandem/core/node.h>

namespace tandem {

struct BackwardOptions {
  bool retain_graph = false;
  /// Inside a closure, on leaves that the outer graph counts: windows are written, but hooks and observers are left to
  /// the outer engine.
  bool nested = false;
};

/// Gradients of the roots with respect to every leaf they reach, added to the leaves' `grad()`. `grads[i]` (of root i's
/// shape) is what root i starts from. One pass lists the nodes by sequence number before anything runs; a freed graph
/// is found then, before anything is written. Throws Error as Tensor::backward does.
TANDEM_API void backward(std::span<const Tensor> roots, std::span<const Tensor> grads, BackwardOptions = {});

/// The leaves a graph reaches, in the order a backward would finish them.
TANDEM_API std::vector<Leaf*> finish_order(const Tensor& root);

/// Ops of this thread are not recorded for a scope (torch.no_grad).
class NoGradGuard {
 public:
  NoGradGuard() : was_(std::exchange(context().grad, false)) {}
  ~NoGradGuard() { context().grad = was_; }
  NoGradGuard(const NoGradGuard&) = delete;
  NoGradGuard& operator=(const NoGradGuard&) = delete;

 private:
  bool was_;
};
/// Ops of this thread are recorded for a scope, inside a NoGradGuard too (torch.enable_grad).
class EnableGradGuard {
 public:
  EnableGradGuard() : was_(std::exchange(context().grad, true)) {}
  ~EnableGradGuard() { context().grad = was_; }
  EnableGradGuard(const EnableGradGuard&) = delete;
  EnableGradGuard& operator=(const EnableGradGuard&) = delete;

 private:
  bool was_;
};
/// In this scope a backward throws Error naming the first op whose gradient is not finite
/// (torch.autograd.detect_anomaly). Reads every gradient on the host: slow.
class DetectAnomalyGuard {
 public:
  DetectAnomalyGuard() : was_(std::exchange(context().detect_anomaly, true)) {}
  ~DetectAnomalyGuard() { context().detect_anomaly = was_; }
  DetectAnomalyGuard(const DetectAnomalyGuard&) = delete;
  DetectAnomalyGuard& operator=(const DetectAnomalyGuard&) = delete;

 private:
  bool was_;
};

}  // namespace tandem
