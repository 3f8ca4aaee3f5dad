/// Lambda: a function of the user's as a step of a chain.
#pragma once
#include <tandem/data/transform.h>

#include <functional>

namespace tandem::data {

/// Any function on a batch of images [n,c,h,w] (torchvision.transforms.Lambda, on batches). It is called from the
/// loader's threads. What it draws should come from the key: see DrawKey.
class TANDEM_API Lambda : public TransformStep {
 public:
  using Function = std::function<Tensor(const Tensor& images, const DrawKey& key)>;
  explicit Lambda(Function f) : f_(std::move(f)) {}
  std::string name() const override { return "Lambda()"; }
  bool random() const override { return true; }
  Tensor apply(const Tensor& images, const DrawKey& key, int) const override { return f_(images, key); }

 private:
  Function f_;
};

}  // namespace tandem::data
