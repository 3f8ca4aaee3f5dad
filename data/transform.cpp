#include <tandem/core/copy.h>
#include <tandem/data/transform.h>

namespace tandem::data {
namespace {

Tensor index_tensor(std::span<const int64_t> v, Device d) {
  return v.empty() ? Tensor() : from_span(v, {int64_t(v.size())}, {.device = d});
}

}  // namespace

Tensor TransformStep::apply(const Tensor&, const DrawKey&, int) const {
  throw Error(message("[", name(), "] a transform step implements join or apply"));
}

Transform::Transform(std::vector<StepPtr> steps) : steps_(std::move(steps)) {
  int draw = 0;
  for (const StepPtr& step : steps_) {
    const bool fresh = passes_.empty() || passes_.back().alone;
    Pass pass = fresh ? Pass{} : passes_.back();
    if (step->join(pass.fused, draw)) {
      if (fresh)
        passes_.push_back(std::move(pass));
      else
        passes_.back() = std::move(pass);
    } else {
      Pass next;
      if (!step->join(next.fused, draw)) next = {.fused = {}, .alone = step, .draw = draw};
      passes_.push_back(std::move(next));
    }
    draw += step->random();
  }
}

Tensor Transform::gather(const Tensor& images, std::span<const int64_t> rows, const DrawKey& key) const {
  const Device d = images.device();
  return gather(images, from_span(rows, {int64_t(rows.size())}, {.device = d}),
                {.seed = key.seed, .epoch = key.epoch, .samples = index_tensor(key.samples, d)}, key);
}

Tensor Transform::gather(const Tensor& images, const Tensor& rows, const AugmentKey& keys, const DrawKey& key) const {
  // A first pass that can't gather is preceded by one that does nothing else.
  static const Pass kGather;
  Tensor x = images, at = rows;
  auto run = [&](const Pass& p) {
    x = p.alone ? p.alone->apply(x, key, p.draw) : augment(x, std::exchange(at, {}), keys, p.fused);
  };
  if (passes_.empty() || passes_.front().alone) run(kGather);
  for (const Pass& p : passes_) run(p);
  return x;
}

Tensor Transform::operator()(const Tensor& images, const DrawKey& key) const {
  check<ShapeError>(images.dim() == 3 || images.dim() == 4, "[Transform] takes images [n,c,h,w] or [c,h,w], got ",
                    images.shape());
  if (images.dim() == 3) {
    Dims shape = images.shape(), strides = images.strides();
    shape.insert(0, 1);
    strides.insert(0, images.numel());
    Tensor y = (*this)(images.alias(shape, strides, images.impl()->offset), key);
    shape = y.shape();
    strides = y.strides();
    shape.erase(0);
    strides.erase(0);
    return y.alias(shape, strides, y.impl()->offset);
  }
  const AugmentKey keys{.seed = key.seed, .epoch = key.epoch, .samples = index_tensor(key.samples, images.device())};
  Tensor x = images;
  for (const Pass& p : passes_) x = p.alone ? p.alone->apply(x, key, p.draw) : augment(x, {}, keys, p.fused);
  return x;
}

std::vector<Transform::StepPtr> Transform::steps_of(const std::vector<Transform>& parts) {
  std::vector<StepPtr> all;
  for (const Transform& t : parts) all.insert(all.end(), t.steps_.begin(), t.steps_.end());
  return all;
}

bool Transform::random() const {
  for (const StepPtr& s : steps_)
    if (s->random()) return true;
  return false;
}

std::string to_string(const Transform& t) {
  if (t.steps_.size() == 1) return t.steps_[0]->name();
  std::string s = "Compose(";
  for (size_t i = 0; i < t.steps_.size(); ++i) s += (i ? ", " : "") + t.steps_[i]->name();
  return s + ")";
}

}  // namespace tandem::data
