/// DistributedDataParallel: a module trained by all ranks of a group together, each on samples of its own
/// (torch.nn.parallel.DistributedDataParallel). After a backward every rank has the same gradients: the mean over all
/// samples of all ranks, summed while the backward goes on.
///
///     auto group = init_process_group();
///     Net net;
///     DistributedDataParallel ddp(net);
///     nn::SGD optimizer(net.parameters(), {.lr = 0.01});
///     ...
///     optimizer.zero_grad();
///     cross_entropy(ddp(x), y).backward();
///     optimizer.step();
///
/// The wrapper is not a module: parameters, their names and checkpoints are the wrapped module's.
#pragma once
#include <tandem/nn/module.h>
#include <tandem/parallel/grad_bucket.h>
#include <tandem/parallel/process_group.h>

#include <functional>

namespace tandem {

class Reducer;

struct DistributedDataParallelOptions {
  /// The thread's group where null.
  ProcessGroup* process_group = nullptr;
  /// A bucket is closed once its gradients have this size, in MiB.
  double bucket_cap_mb = 25;
  /// The same of the first one, which is small so that the reduction starts early.
  double first_bucket_cap_mb = 1;
  /// After each synchronised backward in training mode, every rank gets rank 0's buffers (running statistics).
  bool broadcast_buffers = true;
  /// Lets a backward miss parameters. One that is missed on some ranks counts as zero there; one that is missed on all
  /// gets no gradient. Otherwise a missed parameter is an error at the end of that backward, on all ranks.
  bool find_unused_parameters = false;
  /// Whether every rank begins with rank 0's parameters and buffers.
  bool init_sync = true;
  /// by_samples: a rank counts as many times as it had samples, so that uneven batches give the true mean. by_rank:
  /// the mean of the ranks' means, as PyTorch's. With even batches both have the same bits.
  enum class Average { by_samples, by_rank } average = Average::by_samples;
  /// Every so many synchronised backwards the parameters of all ranks are compared, bit by bit. 0: never.
  int check_parameters_every = 0;
};

struct JoinOptions {
  /// Called on a rank that has run out, after each backward of the others: what they do there, optimizer.step() and
  /// whatever else. The gradients are the same on all ranks, so that rank's optimizer keeps the others' state. Without
  /// it, parameters are brought along in the end, but its optimizer has missed those steps (as PyTorch's).
  std::function<void()> after_backward = {};
  /// All ranks throw Error, naming those that have run out, at the end of the first backward that not all ranks have.
  bool throw_on_early_termination = false;
  /// With Average::by_rank: ranks that have run out count as such with a gradient of zero, PyTorch's default. Otherwise
  /// the mean is over the ranks that have a backward.
  bool divide_by_initial_world_size = false;
};

class TANDEM_API DistributedDataParallel {
 public:
  using Options = DistributedDataParallelOptions;
  /// Collective. Throws CommError, on every rank, listing all differences where the ranks' modules are not the same.
  /// The module must outlive the wrapper, and may not be moved to another device or dtype while it lives.
  explicit DistributedDataParallel(nn::Module& module, Options options = {});
  ~DistributedDataParallel();
  DistributedDataParallel(const DistributedDataParallel&) = delete;
  DistributedDataParallel& operator=(const DistributedDataParallel&) = delete;

  /// The module's forward. The first dimension of x is the number of samples that this rank's gradient counts for; that
  /// of several forwards since the last synchronised backward is added up. An evaluation does not count: not under
  /// NoGradGuard, and not where its output is gone when the next backward begins.
  Tensor operator()(const Tensor& x) { return forward(x); }
  Tensor forward(const Tensor& x);
  /// Says how many samples the next synchronised backward counts for on this rank: for losses that are weighted
  /// otherwise than by samples (tokens, class weights, ignored targets), and where the module is called past the
  /// wrapper. Several calls add up, as forwards do. 0: this rank's gradient is not even read. On all ranks or on none.
  void samples(int64_t n);

  /// In its scope backwards only add up on this rank (torch's no_sync). What counts is where a backward begins.
  class TANDEM_API NoSync {
   public:
    explicit NoSync(DistributedDataParallel& ddp);
    ~NoSync();
    NoSync(const NoSync&) = delete;
    NoSync& operator=(const NoSync&) = delete;

   private:
    DistributedDataParallel& ddp_;
  };
  [[nodiscard]] NoSync no_sync() { return NoSync(*this); }
  /// From now on every k-th backward is synchronised. Divide the loss by k, as without the wrapper.
  void accumulate(int k);

  /// Runs a loop over batches of which ranks may have different numbers (torch's Join, DDP.join). Collective: a rank
  /// whose loop has ended answers the others' backwards, without samples of its own, until all loops have. Averages by
  /// samples need no more; those by rank are over the ranks that have a backward. What a rank has accumulated without
  /// synchronising it when its loop ends counts for nothing.
  ///
  /// Afterwards all ranks have the parameters and buffers of the first of the ranks that had the last backward; until
  /// then, buffers are broadcast from the first rank that has a batch. Throws what the loop threw, Error in a join
  /// already and for a module with synchronised batch norm, whose collectives a rank without batches can't answer. The
  /// loop may not hold collectives of the user's own, since they come in different numbers.
  void join(const std::function<void()>& loop, const JoinOptions& options = {});

  /// Once, before the first backward, and alike on all ranks.
  void register_comm_hook(std::unique_ptr<CommHook> hook);

  nn::Module& module() { return module_; }
  ProcessGroup& process_group() { return group_; }
  /// Of each bucket, in bytes; empty before the first synchronised backward.
  std::vector<size_t> bucket_bytes() const;

 private:
  nn::NamedTensors state() const;
  void start_buffers(int from);
  void finish_step();
  void count_step();

  nn::Module& module_;
  ProcessGroup& group_;
  const Options options_;
  std::unique_ptr<Communicator> communicator_;
  std::unique_ptr<Reducer> reducer_;
  nn::NamedTensors buffers_;
  std::vector<Work> buffer_works_;
  int64_t synchronised_ = 0;
};

}  // namespace tandem
