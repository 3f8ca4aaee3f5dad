/// DataLoader: batches of a dataset, made ahead by worker threads and handed out in order.
///
/// A batch depends on (seed, epoch, indices) alone, never on how many workers there are or which of them made it.
#pragma once
#include <tandem/data/dataset.h>
#include <tandem/data/held.h>
#include <tandem/data/sampler.h>
#include <tandem/data/transform.h>

#include <iterator>
#include <memory>
#include <optional>

namespace tandem::data {

/// Where a loader stands. Saved between two batches and given to the same loader in another run, it makes the remaining
/// batches the same.
struct DataLoaderState {
  uint64_t seed = 0;     // of augmentation in this epoch
  SamplerState sampler;  // offset: items handed out in this epoch
  bool operator==(const DataLoaderState&) const = default;
};

/// `for (auto& [images, labels] : loader)` runs through one epoch; each loop is a new one. Leaving the loop early is
/// fine. For one thread at a time.
class TANDEM_API DataLoader {
 public:
  /// PyTorch's names and defaults. Options that exclude each other throw Error at construction, as there.
  struct Options {
    int64_t batch_size = 1;
    bool shuffle = false;        // a RandomSampler; not with `sampler`
    Held<Sampler> sampler = {};  // default: SequentialSampler
    int num_workers = 0;         // threads, kept over epochs; 0: batches are made by the caller
    bool drop_last = false;
    std::optional<int> prefetch_factor = {};  // batches made ahead per worker; default 2; only with workers
    /// Of shuffling and augmentation. Without it both draw from the thread's generator at the start of each epoch, in
    /// PyTorch's order: after the same manual_seed the batches are PyTorch's.
    std::optional<uint64_t> seed = {};
    /// Applied to the inputs of a batch, on bytes where the dataset has them.
    Transform transform = {};
  };

  /// A dataset or sampler given as an lvalue must outlive the loader. Throws Error for options that make no sense.
  explicit DataLoader(Held<const Dataset> dataset) : DataLoader(std::move(dataset), Options()) {}
  DataLoader(Held<const Dataset> dataset, Options o);
  ~DataLoader();
  DataLoader(DataLoader&&) noexcept;
  DataLoader& operator=(DataLoader&&) noexcept;

  /// Batches per epoch.
  int64_t size() const;
  const Dataset& dataset() const;
  Sampler& sampler() const;

  /// The next batch; nothing at the end of an epoch, after which the next epoch begins. What a dataset or transform
  /// threw for a batch is thrown here in its place, and the batch after it comes next.
  std::optional<Batch> next();

  class Iterator;
  /// Starts the next epoch, or continues in the one that set_state or set_epoch named.
  Iterator begin();
  std::default_sentinel_t end() const { return {}; }

  /// Number of the epoch that the next batch belongs to, from 0.
  int64_t epoch() const;
  /// The next batch is the first of this epoch. Not needed: epochs advance by themselves.
  void set_epoch(int64_t epoch);
  /// After the batches handed out so far.
  DataLoaderState state() const;
  /// Continues where a loader stood. Throws Error for a position that this one does not have.
  void set_state(const DataLoaderState& s);

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

class DataLoader::Iterator {
 public:
  using iterator_category = std::input_iterator_tag;
  using value_type = Batch;
  using difference_type = std::ptrdiff_t;

  explicit Iterator(DataLoader* l) : loader_(l) { ++*this; }
  Batch& operator*() { return *batch_; }
  Batch* operator->() { return &*batch_; }
  Iterator& operator++() {
    batch_.reset();  // its memory is free to be used again for the next one
    batch_ = loader_->next();
    return *this;
  }
  void operator++(int) { ++*this; }
  bool operator==(std::default_sentinel_t) const { return !batch_; }

 private:
  DataLoader* loader_;
  std::optional<Batch> batch_;
};

}  // namespace tandem::data
