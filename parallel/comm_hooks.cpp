#include <tandem/core/copy.h>
#include <tandem/parallel/grad_bucket.h>

#include <map>

namespace tandem {
namespace {

struct AllReduce final : CommHook {
  Work start(GradBucket& b, Communicator& c) override {
    return c.all_reduce_async(b.flat, {.premultiply = b.weight, .label = b.label});
  }
};

class Compress final : public CommHook {
 public:
  explicit Compress(Dtype dtype) : dtype_(dtype) {}

  Work start(GradBucket& b, Communicator& c) override {
    if (size_of(b.flat.dtype()) <= size_of(dtype_))
      return c.all_reduce_async(b.flat, {.premultiply = b.weight, .label = b.label});
    Tensor& small = small_[b.index];
    if (!small || small.numel() != b.flat.numel() || small.device() != b.flat.device())
      small = empty(b.flat.shape(), {.dtype = dtype_, .device = b.flat.device()});
    copy_into({small, 0}, b.flat);
    return c.all_reduce_async(small, {.premultiply = b.weight, .label = b.label + " as " + to_string(dtype_)});
  }
  void finish(GradBucket& b) override {
    auto it = small_.find(b.index);
    if (it != small_.end() && size_of(b.flat.dtype()) > size_of(dtype_)) copy_into({b.flat, 0}, it->second);
  }

 private:
  const Dtype dtype_;
  std::map<int, Tensor> small_;  // of each bucket, kept from step to step
};

}  // namespace

std::unique_ptr<CommHook> allreduce_hook() { return std::make_unique<AllReduce>(); }
std::unique_ptr<CommHook> fp16_compress_hook() { return std::make_unique<Compress>(Dtype::f16); }
std::unique_ptr<CommHook> bf16_compress_hook() { return std::make_unique<Compress>(Dtype::bf16); }

}  // namespace tandem
