/// Not installed. Reducer: the mean of gradients over the ranks of a group, bucket by bucket while backward goes on.
///
/// *Bucket order.* Buckets are filled in the order in which rank 0's gradients became ready in the first backward, and
/// are started strictly in order on every rank, whatever becomes ready first: all ranks ask for the same collectives in
/// the same order. Parameters that a backward does not reach count as ready, with zeros, when it begins.
///
/// *Weights.* The mean is over samples: rank r's gradient is multiplied by n_r / sum n as it is read. What the ranks
/// have to know for that, and about parameters that were not reached, is one small all-reduce that goes before the
/// buckets.
///
/// *Captured steps* (core/step_graph.h) have the weights in them. So before each replay the ranks exchange what they
/// would in an eager step: where anything has changed, or not all of them replay, all run the step eagerly.
#pragma once
#include <tandem/nn/named_tensors.h>
#include <tandem/parallel/buckets.h>
#include <tandem/parallel/grad_bucket.h>

#include <deque>
#include <functional>
#include <memory>
#include <optional>

namespace tandem {

class StepCapture;

struct ReducerOptions {
  BucketLimits limits;
  bool find_unused_parameters = false;
  bool average_by_samples = true;
};

class TANDEM_API Reducer final : public GradObserver {
 public:
  /// Of parameters that require grad. Throws Error where another wrapper observes one of them.
  Reducer(Communicator& communicator, const nn::NamedTensors& parameters, const ReducerOptions& options);
  ~Reducer() override;

  void begin(std::span<Leaf* const> leaves) override;
  void ready(Leaf* leaf) override;
  void done(std::exception_ptr error) override;

  /// While held back, backwards only add up on this rank. Calls nest.
  void hold_back(bool on) { held_back_ += on ? 1 : -1; }
  /// Every k-th backward that is not held back is synchronised.
  void set_accumulate(int k) { accumulate_ = k, backwards_ = 0; }
  /// Samples that this rank's next synchronised backward stands for: those of forwards, or what the user says. Of
  /// forwards count those whose graph, which holds this, is still there when a backward begins; the others have been
  /// an evaluation, unless there are no others.
  void add_forward(int64_t samples, std::weak_ptr<const void> graph);
  void add_samples(int64_t n) { said_samples_ = said_samples_.value_or(0) + n; }
  void set_hook(std::unique_ptr<CommHook> hook) { hook_ = std::move(hook); }
  /// What else belongs to a synchronised backward: called when all buckets are started, with a rank that takes part in
  /// it, and when all is done.
  struct Callbacks {
    std::function<void(int rank)> buckets_started;
    std::function<void()> finished;
  };
  void set_callbacks(Callbacks c) { callbacks_ = std::move(c); }

  /// From here on a rank may run out of backwards: it answers those of the others.
  struct Join {
    bool throw_on_early_termination = false;
    bool divide_by_initial_world_size = false;
  };
  void begin_join(const Join& join);
  void end_join() { join_.reset(); }
  bool joining() const { return join_.has_value(); }
  /// One backward of the others, of which this rank has no samples. False where nobody has any more.
  bool answer();
  /// Whether all ranks have thrown, since one has run out.
  bool ended_early() const { return ended_early_; }
  /// The first of those ranks that had the last backward; -1 where there was none.
  int last_rank() const { return last_rank_; }

  /// Of each bucket, in bytes; empty before the first synchronised backward.
  std::vector<size_t> bucket_bytes() const;

 private:
  struct Forward {
    int64_t samples;
    std::weak_ptr<const void> graph;
  };
  void sort_out_forwards();
  void forget_samples();
  enum class Rule { said, forward, none };  // where the number of samples comes from
  void make_buckets(std::span<Leaf* const> leaves);
  void start_round(std::span<Leaf* const> leaves, bool takes_part);
  void fill_info(std::span<Leaf* const> leaves, bool takes_part);
  std::vector<int> ranks_taking_part() const;
  void start_bucket(size_t bucket);
  void begin_synchronised(std::span<Leaf* const> leaves);
  void join_capture(StepCapture& capture);
  void leave_capture();
  void replay_round(StepCapture& capture, const std::vector<double>& mine);
  Tensor exchanged_info() const;
  bool all_in_graph() const;
  size_t place_of(const Leaf* leaf) const;
  std::string label_of(size_t bucket) const;
  void join_works();
  [[noreturn]] void give_up(const char* when);
  void require_same_leaves() const;
  void note_reached(std::span<Leaf* const> leaves);
  void reduce_rest();
  void finish_backward();
  void require_reached(size_t ranks) const;
  void require_no_early_end(const std::vector<int>& ranks);
  void require_agreement() const;
  std::string unused(size_t ranks) const;

  Communicator& communicator_;
  const ReducerOptions options_;
  std::vector<std::string> names_;
  std::vector<Tensor> parameters_;  // in order of registration
  std::vector<Ref<Node>> leaves_;   // theirs
  std::vector<size_t> number_;      // of each leaf, by its index in the buckets: its place in leaves_
  std::unique_ptr<Buckets> buckets_;
  std::vector<GradBucket> pieces_;
  std::unique_ptr<CommHook> hook_ = allreduce_hook();
  Callbacks callbacks_;

  // f64 [2 + 3 + 1 + parameters + ranks]: this rank's samples; then, summed over the ranks, the samples, who used which
  // rule, who has this step in a graph, and by how many ranks each parameter was reached. While joining, also which
  // ranks take part.
  Tensor info_;
  std::vector<Forward> forwards_;  // since the last backward
  std::optional<int64_t> forward_samples_, dropped_samples_, said_samples_;
  std::optional<Join> join_;
  bool ended_early_ = false;
  int last_rank_ = -1;
  int held_back_ = 0, accumulate_ = 1, backwards_ = 0;
  bool syncing_ = false;         // this backward
  std::vector<bool> reached_;    // of each leaf in order of registration, since the last synchronised backward
  std::vector<bool> was_fresh_;  // of each leaf that was not reached, by index
  std::vector<bool> complete_;   // of each bucket
  size_t next_ = 0;              // bucket to start
  Work info_work_;
  std::vector<Work> works_;
  std::deque<std::vector<double>> exchanged_;  // infos of rounds that a replay was to begin with
  struct Captured {
    const StepCapture* capture;
    int phase, held_back;  // as the step begins
    int backwards = 0;     // that are not held back
  };
  std::weak_ptr<Captured> captured_;                        // of the capture going on, or the last one
  std::shared_ptr<char> alive_ = std::make_shared<char>();  // captured steps ask
};

}  // namespace tandem
