/// Not installed.
/// The bucket table: gradients side by side in the order in which they become ready, cut into pieces that are reduced
/// as one, and the countdown that tells when a piece is complete. The reducer of DistributedDataParallel and
/// DataParallel share it; what is done with a complete bucket is theirs.
#pragma once
#include <tandem/core/node.h>

#include <deque>

namespace tandem {

/// PyTorch's numbers. A bucket closes once its size has reached its limit, so it overshoots; the first one is small, so
/// that the reduction starts early.
struct BucketLimits {
  size_t first_bucket_bytes = size_t(1) << 20;
  size_t bucket_bytes = size_t(25) << 20;
};

/// Of leaves of any devices and dtypes; a bucket holds leaves of one device and one dtype.
class TANDEM_API Buckets {
 public:
  struct Bucket {
    std::vector<Leaf*> leaves;  // in order
    Tensor flat;                // [elements], over their windows and the gaps of zeros between them
    std::atomic<int> pending{0};
  };

  /// Leaves in the order in which they become ready. Gives each its place in that order as `index` and moves the
  /// windows (values are kept where written) so that each bucket's, and all buckets' of one device and dtype, lie side
  /// by side. Nobody may be using them. The windows stay where they are from then on; whose leaves or order change
  /// makes another table.
  Buckets(const std::vector<Leaf*>& leaves, BucketLimits limits);

  /// How many there are. Bucket 0 is complete first: they are numbered by their last leaf.
  size_t size() const { return buckets_.size(); }
  const Bucket& operator[](size_t b) const { return buckets_[b]; }
  /// By their index.
  std::span<Leaf* const> leaves() const { return leaves_; }
  size_t bucket_of(int index) const { return bucket_of_[size_t(index)]; }

  /// Begins a countdown in which each leaf is counted `times` times. Not while one is under way.
  void expect(int times);
  /// Counts the leaf of that index once. True for the one call that completes its bucket, which then sees what the
  /// others wrote. From any thread.
  bool count_down(int index) { return buckets_[bucket_of(index)].pending.fetch_sub(1, std::memory_order_acq_rel) == 1; }

 private:
  void cut(BucketLimits limits);
  void lay_out_windows();
  void make_flat(Bucket& b) const;

  std::vector<Leaf*> leaves_;
  std::vector<Ref<Node>> kept_;  // freezing a parameter would take its leaf away
  std::deque<Bucket> buckets_;   // never moves them
  std::vector<size_t> bucket_of_;
};

}  // namespace tandem
