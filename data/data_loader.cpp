#include <tandem/core/backend.h>
#include <tandem/core/context.h>
#include <tandem/core/step_graph.h>
#include <tandem/data/data_loader.h>
#include <tandem/data/ordered_workers.h>
#include <tandem/data/resident_order.h>

#include <algorithm>
#include <limits>

namespace tandem::data {
namespace {

constexpr const char* kName = "DataLoader";

// One epoch: everything its batches depend on.
struct Epoch {
  uint64_t seed = 0;  // of augmentation
  SamplerState start;
  std::vector<int64_t> order;
  int64_t batches = 0;  // from start.offset on
  Context context;      // of the caller, for whoever makes the batches
};

// Random numbers of this thread from now on depend on these alone.
void key_context(const Epoch& e, int64_t sample) {
  constexpr uint32_t kItems = 0xC0000000u;  // keeps clear of the counters of augmentation and dropout
  auto bits = philox(e.seed, {uint32_t(sample), uint32_t(uint64_t(sample) >> 32), uint32_t(e.start.epoch), kItems});
  Context& c = context();
  const uint64_t drawn = uint64_t(bits[1]) << 32 | bits[0];
  c.generator = LazyGenerator(drawn);
  c.random = {.seed = drawn};
}

Batch stack(std::vector<Sample> samples, std::span<const int64_t> indices) {
  std::vector<Tensor> column(samples.size());
  auto stacked = [&](auto&& part) {
    for (size_t k = 0; k < samples.size(); ++k) column[k] = part(samples[k]);
    return stack_items(kName, column, indices);
  };
  Batch b;
  b.input = stacked([](Sample& s) { return std::move(s.input); });
  const bool with_target = std::any_of(samples.begin(), samples.end(), [](auto& s) { return s.target.defined(); });
  if (with_target) b.target = stacked([](Sample& s) { return std::move(s.target); });
  for (size_t k = 0; k < samples.size(); ++k)
    check(samples[k].more.size() == samples[0].more.size(), "[", kName, "] item ", indices[k], " has ",
          samples[k].more.size(), " further tensors, item ", indices[0], " has ", samples[0].more.size());
  for (size_t j = 0; j < samples[0].more.size(); ++j)
    b.more.push_back(stacked([j](Sample& s) { return std::move(s.more[j]); }));
  return b;
}

uint64_t draw_seed(Generator& g) { return g.random64() & uint64_t(std::numeric_limits<int64_t>::max()); }

}  // namespace

struct DataLoader::Impl {
  Held<const Dataset> dataset;
  DataLoader::Options o;
  int64_t window = 0;  // batches made ahead
  std::shared_ptr<const Epoch> current, ahead;
  int64_t handed_out = 0;                      // batches of `current`
  int64_t submitted = 0, submitted_ahead = 0;  // batches of `current` and `ahead` given to the workers
  std::optional<uint64_t> resume_seed;         // of set_state
  std::optional<ResidentOrder> resident;       // of `resident_epoch`, where the images lie on a device
  std::shared_ptr<const Epoch> resident_epoch;
  std::unique_ptr<OrderedWorkers> workers;  // last: joined before anything else goes

  Impl(Held<const Dataset> d, DataLoader::Options options) : dataset(std::move(d)), o(std::move(options)) {
    check(bool(dataset), "[", kName, "] no dataset");
    check(o.batch_size >= 1, "[", kName, "] batch_size ", o.batch_size);
    check(o.num_workers >= 0, "[", kName, "] num_workers ", o.num_workers);
    check(!(o.shuffle && o.sampler), "[", kName, "] shuffle and sampler exclude each other: the sampler decides");
    check(!o.prefetch_factor || o.num_workers > 0, "[", kName, "] prefetch_factor needs num_workers > 0");
    const int factor = o.prefetch_factor.value_or(2);
    check(factor >= 1, "[", kName, "] prefetch_factor ", factor);
    if (!o.sampler) {
      const int64_t n = dataset->size();
      if (o.shuffle)
        o.sampler = RandomSampler(n, {.seed = o.seed});
      else
        o.sampler = SequentialSampler(n);
    }
    const int64_t items = o.sampler->size();
    check(!o.drop_last || items == 0 || items >= o.batch_size, "[", kName, "] drop_last leaves no batch: ", items,
          " items, batch_size ", o.batch_size);
    window = int64_t(o.num_workers) * factor;
    if (o.num_workers) workers = std::make_unique<OrderedWorkers>(o.num_workers);
  }

  int64_t batches_of(int64_t items) const {
    return o.drop_last ? items / o.batch_size : (items + o.batch_size - 1) / o.batch_size;
  }

  // Seeds of the epoch at `at`, drawn from g where there are none, in PyTorch's order: the loader's, then the
  // sampler's.
  std::shared_ptr<Epoch> plan(SamplerState at, Generator& g) const {
    auto e = std::make_shared<Epoch>();
    if (at.offset > 0) {  // in mid-epoch: both were drawn when it began
      e->seed = resume_seed ? *resume_seed : o.seed ? *o.seed : draw_seed(g);
    } else {
      e->seed = o.seed ? *o.seed : draw_seed(g);
      at.seed = o.sampler->epoch_seed(g);
    }
    e->start = at;
    return e;
  }
  void fill(Epoch& e) const {
    e.order = o.sampler->order(e.start.seed, e.start.epoch);
    e.batches = batches_of(int64_t(e.order.size()) - e.start.offset);
    e.context = context();
    e.context.grad = false;
    e.context.generator = {};
  }

  void open_epoch() {
    Sampler& s = *o.sampler;
    std::shared_ptr<Epoch> e = plan(s.state_, default_generator());
    resume_seed.reset();
    s.moved_ = false;
    if (ahead && ahead->start == e->start && (ahead->seed == e->seed || !seed_matters())) {
      current = std::exchange(ahead, nullptr);
      submitted = submitted_ahead;
    } else {
      drop_work();
      fill(*e);
      current = std::move(e);
    }
    s.state_ = current->start;
    handed_out = submitted_ahead = 0;
  }
  void close_epoch() {
    Sampler& s = *o.sampler;
    if (handed_out < current->batches) drop_work();
    current = nullptr;
    ++s.state_.epoch;
    s.state_.offset = 0;
  }
  void drop_work() {
    if (workers) workers->clear();
    ahead = nullptr;
    submitted = submitted_ahead = 0;
  }
  // Items made one by one, and steps of the user's, may draw from the thread's generator.
  bool seed_matters() const { return o.transform.random() || !(o.transform && dataset->byte_images()); }

  std::optional<Batch> next() {
    Sampler& s = *o.sampler;
    if (s.moved_) current = nullptr;
    if (!current) open_epoch();
    if (handed_out == current->batches) {
      close_epoch();
      return {};
    }
    if (workers) submit_ahead();
    if (StepCapture* c = StepCapture::current()) join(*c);
    const int64_t k = handed_out;
    count_batch();
    if (workers) return workers->take();
    return bytes_on_device() ? make_on_device(k) : make(*current, k);
  }

  void count_batch() {
    ++handed_out;
    const int64_t end = int64_t(current->order.size());
    o.sampler->state_.offset = std::min(end, current->start.offset + handed_out * o.batch_size);
  }
  std::span<const int64_t> indices_of(const Epoch& e, int64_t k) const {
    const size_t begin = size_t(e.start.offset + k * o.batch_size);
    return std::span(e.order).subspan(begin, std::min(size_t(o.batch_size), e.order.size() - begin));
  }

  // Keeps `window` batches ahead of the one that is about to be taken, across the epoch's edge.
  void submit_ahead() {
    auto submit = [this](const std::shared_ptr<const Epoch>& e, int64_t k) {
      workers->submit([this, e, k] { return make(*e, k); });
    };
    while (workers->pending() <= window) {
      if (submitted < current->batches) {
        submit(current, submitted++);
        continue;
      }
      if (!ahead) {
        // Without seeds of its own the next epoch will draw them when it begins. They are foreseen on a copy of the
        // generator; if others draw from it before, this work is dropped then.
        Generator foreseen = default_generator();
        auto e = plan({.seed = current->start.seed, .epoch = current->start.epoch + 1}, foreseen);
        fill(*e);
        ahead = std::move(e);
      }
      if (submitted_ahead == ahead->batches) return;
      submit(ahead, submitted_ahead++);
    }
  }

  std::vector<int64_t> rows_of(std::span<const int64_t> indices) const {
    std::vector<int64_t> rows;
    rows.reserve(indices.size());
    for (int64_t i : indices) rows.push_back(dataset->byte_row(i));
    return rows;
  }

  // -- images that lie on a device: the order does too ----------------------------------------------------------

  const ByteImages* bytes_on_device() const {
    const ByteImages* bytes = o.transform && !workers ? dataset->byte_images() : nullptr;
    return bytes && !bytes->images.device().is_cpu() ? bytes : nullptr;
  }
  // Whether the device's order stands before batch k of the epoch.
  bool is_at(int64_t k) const {
    return resident_epoch == current && resident->position() == current->start.offset + k * o.batch_size;
  }
  void go_to(int64_t k) {
    if (!resident) resident.emplace(bytes_on_device()->images.device(), int64_t(current->order.size()));
    if (resident_epoch != current)
      resident->begin(rows_of(current->order), {current->seed, current->start.epoch, current->order});
    resident_epoch = current;
    if (!is_at(k)) resident->go_to(current->start.offset + k * o.batch_size);
  }
  Batch make_on_device(int64_t k) {
    if (!is_at(k)) go_to(k);
    const auto indices = indices_of(*current, k);
    Context c = context();
    c.grad = false;
    ContextGuard guard(std::move(c));
    key_context(*current, indices[0]);
    Batch b = resident->next(*bytes_on_device(), o.transform, {current->seed, current->start.epoch, indices},
                             int64_t(indices.size()));
    b.indices.assign(indices.begin(), indices.end());
    return b;
  }
  // A captured step takes the next batch at each replay; after an epoch's last one, the next epoch's first.
  void join(StepCapture& c) {
    check(bytes_on_device() && o.transform.is_one_pass(),
          "[DataLoader] only batches of images that lie on the step's device, made in one pass without workers, can be "
          "taken inside a captured step");
    check<NeedsMemory>(resident && is_at(handed_out), "[DataLoader] an epoch begins");
    const auto n = int64_t(indices_of(*current, handed_out).size());
    c.before_replay([this, n, first = true]() mutable {
      if (std::exchange(first, false)) return true;  // of the batch that was counted while capturing
      if (o.sampler->moved_) current = nullptr;
      if (current && handed_out == current->batches) close_epoch();
      if (!current) open_epoch();
      if (!is_at(handed_out)) go_to(handed_out);
      return int64_t(indices_of(*current, handed_out).size()) == n;
    });
    c.after_replay([this, n] {
      count_batch();
      resident->count(n);
    });
  }

  Batch make(const Epoch& e, int64_t k) const {
    const auto indices = indices_of(e, k);
    Context c = e.context;
    c.threads = context().threads;  // these are whoever makes the batch's own
    c.pool = context().pool;
    ContextGuard guard(std::move(c));
    key_context(e, indices[0]);
    const DrawKey key{e.seed, e.start.epoch, indices};
    Batch b;
    if (const ByteImages* bytes = o.transform ? dataset->byte_images() : nullptr) {
      const std::vector<int64_t> rows = rows_of(indices);
      b.input = o.transform.gather(bytes->images, rows, key);
      b.target = gather_rows(bytes->labels, rows);
    } else {
      if (auto got = dataset->get_batch(indices)) {
        b = std::move(*got);
      } else {
        std::vector<Sample> samples;
        samples.reserve(indices.size());
        for (int64_t i : indices) {
          key_context(e, i);
          samples.push_back(dataset->get(i));
        }
        b = stack(std::move(samples), indices);
        key_context(e, indices[0]);
      }
      if (o.transform) b.input = o.transform(b.input, key);
    }
    b.indices.assign(indices.begin(), indices.end());
    return b;
  }
};

DataLoader::DataLoader(Held<const Dataset> dataset, Options o)
    : impl_(std::make_unique<Impl>(std::move(dataset), std::move(o))) {}
DataLoader::~DataLoader() = default;
DataLoader::DataLoader(DataLoader&&) noexcept = default;
DataLoader& DataLoader::operator=(DataLoader&&) noexcept = default;

int64_t DataLoader::size() const { return impl_->batches_of(impl_->o.sampler->size()); }
const Dataset& DataLoader::dataset() const { return *impl_->dataset; }
Sampler& DataLoader::sampler() const { return *impl_->o.sampler; }

std::optional<Batch> DataLoader::next() { return impl_->next(); }

DataLoader::Iterator DataLoader::begin() {
  if (impl_->current && !impl_->o.sampler->moved_) impl_->close_epoch();
  return Iterator(this);
}

int64_t DataLoader::epoch() const { return impl_->o.sampler->epoch(); }
void DataLoader::set_epoch(int64_t epoch) { impl_->o.sampler->set_epoch(epoch); }

DataLoaderState DataLoader::state() const {
  const uint64_t seed = impl_->current ? impl_->current->seed : impl_->o.seed.value_or(0);
  return {seed, impl_->o.sampler->state()};
}

void DataLoader::set_state(const DataLoaderState& s) {
  impl_->o.sampler->set_state(s.sampler);
  impl_->resume_seed = s.seed;
  if (impl_->o.seed) impl_->o.seed = s.seed;
}

}  // namespace tandem::data
