#include <tandem/core/autograd.h>
#include <tandem/core/copy.h>
#include <tandem/nn/batch_norm.h>
#include <tandem/ops/binary.h>
#include <tandem/parallel/sync_batch_norm.h>

namespace tandem {
namespace {

class CommunicatorExchange final : public MomentExchange {
 public:
  CommunicatorExchange(std::unique_ptr<Communicator> communicator, SyncBatchNormOptions::Average average)
      : communicator_(std::move(communicator)), average_(average) {}

  Tensor gather(const Tensor& moments) override {
    Tensor all = empty({communicator_->size(), moments.numel()}, moments.options());
    communicator_->all_gather(all, moments, {.label = "batch norm's statistics"});
    return all;
  }

  // The loss of all is the sum of the ranks' losses L_r, times weights w_r. Rank r's gradients are multiplied by w_r
  // later, so that here they have to be those of the whole loss over w_r; and of it, this rank's rows get back the part
  // that all rows have in the statistics. With w_r in proportion to the rows m_r of M, that is
  //   (1 / w_r) sum_s w_s S_s / M = sum_s (m_s / M) S_s / m_r
  // and with equal weights sum_s S_s / M. The kernel divides by m_r.
  void reduce(Tensor& sums, const Tensor& share) override {
    const std::string label = "batch norm's gradients";
    if (average_ == SyncBatchNormOptions::Average::by_samples) {
      communicator_->all_reduce(sums, {.premultiply = share, .label = label});
      return;
    }
    communicator_->all_reduce(sums, {.label = label});
    NoGradGuard no_grad;
    copy_into({sums, 0}, sums * share.select(0, 0) / share.select(0, 1));
  }

 private:
  const std::unique_ptr<Communicator> communicator_;
  const SyncBatchNormOptions::Average average_;
};

}  // namespace

int convert_sync_batchnorm(nn::Module& module, const SyncBatchNormOptions& options) {
  ProcessGroup& group = options.process_group ? *options.process_group : current_process_group();
  auto exchange = std::make_shared<CommunicatorExchange>(group.new_communicator(), options.average);
  int layers = 0;
  for (auto& [name, m] : module.named_modules())
    if (auto* norm = dynamic_cast<nn::BatchNorm2d*>(m)) {
      norm->exchange = exchange;
      ++layers;
    }
  return layers;
}

}  // namespace tandem
