/// Transform: a chain of steps on batches of images, as a value. Steps that can share a pass over the data are fused
/// when the chain is put together; results are the same either way.
#pragma once
#include <tandem/ops/augment.h>

#include <concepts>
#include <initializer_list>
#include <memory>
#include <span>
#include <string>
#include <vector>

namespace tandem::data {

/// What random steps draw from: nothing but these. Without samples, image i of a batch is sample i.
struct DrawKey {
  uint64_t seed = 0;
  int64_t epoch = 0;
  std::span<const int64_t> samples = {};
};

/// One step. A new kind overrides `apply`, or `join` if a pass of `augment` can do it.
class TANDEM_API TransformStep {
 public:
  virtual ~TransformStep() = default;
  /// As it is written in a program.
  virtual std::string name() const = 0;
  /// Whether it draws numbers.
  virtual bool random() const { return false; }
  /// Becomes a part of this pass, as random step number `draw`; false where the pass can't take it (any more).
  virtual bool join(AugmentOptions& pass, int draw) const { return (void)pass, (void)draw, false; }
  /// On its own: images [n,c,h,w] to a new batch of as many.
  virtual Tensor apply(const Tensor& images, const DrawKey& key, int draw) const;

  TransformStep() = default;
  TransformStep(const TransformStep&) = default;
  TransformStep& operator=(const TransformStep&) = default;
};

/// A chain of steps; any step is a chain of one. Copies share what they hold.
class TANDEM_API Transform {
 public:
  /// Leaves images as they are.
  Transform() = default;
  template <std::derived_from<TransformStep> Step>
  Transform(Step step) : Transform(std::vector<StepPtr>{std::make_shared<const Step>(std::move(step))}) {}  // NOLINT

  /// images [n,c,h,w], or [c,h,w] as a batch of one. No autograd.
  Tensor operator()(const Tensor& images, const DrawKey& key = {}) const;
  /// The same on some rows of images [N,c,h,w]: gathered in the first pass.
  Tensor gather(const Tensor& images, std::span<const int64_t> rows, const DrawKey& key) const;
  /// The same by rows, samples (i64 [n]) and an epoch that lie beside the images; `key` is for steps that run alone.
  Tensor gather(const Tensor& images, const Tensor& rows, const AugmentKey& keys, const DrawKey& key) const;
  /// Whether there is any step.
  explicit operator bool() const { return !steps_.empty(); }
  /// Whether any step draws numbers.
  bool random() const;
  /// Whether one pass over the data does it all.
  bool is_one_pass() const { return passes_.size() == 1 && !passes_[0].alone; }
  /// How many times the chain runs over the data.
  int64_t passes() const { return int64_t(passes_.size()); }

 protected:
  using StepPtr = std::shared_ptr<const TransformStep>;
  explicit Transform(std::vector<StepPtr> steps);
  static std::vector<StepPtr> steps_of(const std::vector<Transform>& parts);
  TANDEM_API friend std::string to_string(const Transform& t);

 private:
  struct Pass {
    AugmentOptions fused;
    StepPtr alone;  // if set, this step by itself
    int draw = 0;
  };
  std::vector<StepPtr> steps_;
  std::vector<Pass> passes_;
};

/// "Compose(RandomCrop(32, padding=4), ToTensor())"
TANDEM_API std::string to_string(const Transform& t);

/// Several transforms one after the other (torchvision.transforms.Compose).
class TANDEM_API Compose : public Transform {
 public:
  Compose(std::initializer_list<Transform> parts) : Compose(std::vector<Transform>(parts)) {}
  explicit Compose(const std::vector<Transform>& parts) : Transform(steps_of(parts)) {}
};

}  // namespace tandem::data
