/// One setting of `tandem-bench parallel`, measured: the same loop for one device, for DataParallel, and for each rank
/// of DistributedDataParallel.
#include "apps/bench/bench.h"
#include "apps/bench/bucket_watch.h"
#include "apps/bench/parallel.h"
#include "apps/bench/recorder.h"
#include "apps/bench/wide_net.h"
#include "apps/models/models.h"

#include <tandem/tandem.h>

#include <iostream>

namespace tandem::bench {
namespace {

constexpr int kWarmUp = 3, kTraced = 5;

std::unique_ptr<nn::Module> make_net(const ParallelOptions& o) {
  const std::string& name = o.nets.front();
  if (o.width == 64) return models::make(name);
  check(name == "net", "--width is for the net alone, not for ", name);
  return std::make_unique<WideNet>(o.width);
}

// A CPU device that trains nothing: what is loaded is there, as in a host's memory, and not with the first replica.
Device host() { return cpu(device_count(DeviceKind::cpu) - 1); }

data::ByteImages on_host(const data::ByteImages& images) {
  return {to(images.images, host()), to(images.labels, host())};
}

// This rank's part of the batches that one device would have.
class Batches {
 public:
  Batches(int64_t batch, int ranks, int rank)
      : images_(on_host(*data::Synthetic({.size = 4 * batch}).byte_images())),
        share_(data::RandomSampler(4 * batch, {.seed = 0}), {.batch_size = batch, .num_replicas = ranks, .rank = rank}),
        loader_(images_,
                {.batch_size = share_.share(),
                 .sampler = share_,
                 .seed = 0,
                 .transform = data::Compose({data::RandomCrop(32, {.padding = 4}), data::RandomHorizontalFlip(),
                                             data::ToTensor(), data::Normalize({0.5}, {0.5})})}) {}
  data::Batch next() {
    Phase phase("data");
    auto batch = loader_.next();
    if (!batch) batch = loader_.next();  // the next epoch
    return std::move(*batch);
  }

 private:
  data::ImageDataset images_;
  data::BatchShareSampler share_;
  data::DataLoader loader_;
};

void move_to_device(data::Batch& b) {
  Phase phase("data");
  b.input = to(b.input, current_device());
  b.target = to(b.target, current_device());
}

// What differs between the ways to train: a step after its data, and where its events and memory are.
struct Way {
  std::function<void(data::Batch)> step;
  std::string who;  // whose events count; empty: all
  std::vector<Device> devices;
  std::function<size_t(size_t)> shared_bytes = [](size_t) { return size_t(0); };  // that a device reads of another's
  nn::Optimizer* optimizer = nullptr;
};

size_t state_bytes(nn::Optimizer& optimizer, Device d) {
  size_t bytes = 0;
  for (auto& [name, t] : optimizer.state_dict())
    if (t.dim() > 0 && t.device() == d) bytes += size_t(t.numel()) * size_of(t.dtype());
  return bytes;
}

void add_memory(Row& r, const Way& way) {
  for (size_t i = 0; i < way.devices.size(); ++i) {
    const Device d = way.devices[i];
    r.memory_mb.push_back(double(max_memory_allocated(d) + way.shared_bytes(i)) / 1e6);
    r.optimizer_mb.push_back(double(state_bytes(*way.optimizer, d)) / 1e6);
  }
}

struct Traced {
  int64_t begin_ns, end_ns;
};
struct Measured {
  std::vector<double> ms;  // sorted
  std::vector<Traced> traced;
  size_t best = 0;  // of those

  const Traced& shown() const { return traced[best]; }
};

// Ranks run through this side by side: only `leads` may switch the recorder, which is the process's, and `together`
// returns when all have come.
Measured time_steps(Way& way, Batches& batches, int steps, bool leads, const std::function<void()>& together) {
  auto step = [&] { way.step(batches.next()); };
  for (int i = 0; i < kWarmUp; ++i) step();
  for (Device d : way.devices) reset_peak_memory_stats(d);
  Measured m;
  m.ms = time_calls(steps, 0, step);
  together();
  if (leads) Recorder::start();
  together();
  for (int i = 0; i < kTraced; ++i) {
    const int64_t begin = now_ns();
    step();
    m.traced.push_back({begin, now_ns()});
  }
  together();
  if (leads) Recorder::stop();
  auto shorter = [](const Traced& a, const Traced& b) { return a.end_ns - a.begin_ns < b.end_ns - b.begin_ns; };
  m.best = size_t(std::min_element(m.traced.begin(), m.traced.end(), shorter) - m.traced.begin());
  return m;
}

Row row_of(const ParallelOptions& o, int threads, const Measured& m, const Way& way) {
  Row r;
  r.net = o.nets.front();
  r.width = o.width;
  r.batch = o.batch_sizes.front();
  r.mode = o.modes.front();
  r.replicas = o.replicas.front();
  r.threads = threads;
  r.bucket_mb = o.bucket_mb.front();
  r.delay_ms = o.delay_ms;
  r.best_ms = m.ms.front();
  r.median_ms = m.ms[m.ms.size() / 2];
  r.images_s = r.batch / r.best_ms * 1e3;
  add_memory(r, way);
  r.load = load_average();
  return r;
}

// What the traced step shows, with times from `origin_ns` on.
void add_step(Row& r, const Traced& step, const Way& way, int64_t origin_ns) {
  r.timeline = Recorder::events(way.who, step.begin_ns, step.end_ns);
  r.split = split_of(r.timeline);
  r.traced_ms = double(step.end_ns - step.begin_ns) * 1e-6;
  for (Event& e : r.timeline) {
    e.begin_ns -= origin_ns;
    e.end_ns -= origin_ns;
  }
}

nn::SGD::Options sgd() { return {.lr = 0.01, .momentum = 0.9, .weight_decay = 5e-4}; }

// One device, or the replicas of DataParallel.
void measure_here(const ParallelOptions& o, int cores) {
  const std::string& mode = o.modes.front();
  const int n = mode == "none" ? 1 : o.replicas.front();
  set_num_threads(cores);
  manual_seed(0);
  auto net = make_net(o);
  nn::SGD optimizer(net->parameters(), sgd());
  Way way;
  way.optimizer = &optimizer;
  for (int i = 0; i < n; ++i) way.devices.push_back(cpu(i));
  std::unique_ptr<DataParallel> dp;
  const auto bucket_bytes = size_t(o.bucket_mb.front() * 1024 * 1024);
  if (mode != "none")
    dp = std::make_unique<DataParallel>(
        *net, way.devices,
        DataParallel::Options{.first_bucket_bytes = std::min(size_t(1) << 20, bucket_bytes),
                              .bucket_bytes = bucket_bytes});
  if (dp) way.shared_bytes = [&](size_t device) { return dp->shared_bytes(int(device)); };
  auto loss_of = [](const Tensor& y, const Tensor& target) { return cross_entropy(y, target); };
  way.step = [&](data::Batch b) {
    optimizer.zero_grad();
    if (!dp) move_to_device(b);  // replicas take their shares themselves
    if (mode == "dp-step") {
      Phase phase("step");
      dp->step(b.input, b.target, loss_of);
    } else {
      Tensor loss;
      {
        Phase phase("forward");
        loss = loss_of(dp ? (*dp)(b.input) : (*net)(b.input), to(b.target, current_device()));
      }
      Phase phase("backward");
      loss.backward();
    }
    Phase phase("optimizer");
    optimizer.step();
  };
  Batches batches(o.batch_sizes.front(), 1, 0);
  Measured m = time_steps(way, batches, o.steps, true, [] {});
  Row row = row_of(o, std::max(1, cores / n), m, way);
  add_step(row, m.shown(), way, m.shown().begin_ns);
  std::cout << to_json(row, true) << std::endl;
}

// Everyone's text, on every rank.
std::vector<std::string> gather_texts(const std::string& mine) {
  ProcessGroup& group = current_process_group();
  const int64_t n = group.size();
  Tensor lengths = empty({n}, {.dtype = Dtype::i64, .device = cpu()});
  group.communicator().all_gather(lengths, tensor({int64_t(mine.size())}, {.device = cpu()}));
  auto all = lengths.to_vector<int64_t>();
  const int64_t longest = *std::max_element(all.begin(), all.end());
  std::vector<uint8_t> padded(mine.begin(), mine.end());
  padded.resize(size_t(longest));
  Tensor texts = empty({n, longest}, {.dtype = Dtype::u8, .device = cpu()});
  group.communicator().all_gather(texts, from_vector(padded, {longest}, {.device = cpu()}));
  auto bytes = texts.to_vector<uint8_t>();
  std::vector<std::string> out;
  for (int64_t r = 0; r < n; ++r) {
    auto from = bytes.begin() + r * longest;
    out.emplace_back(from, from + all[size_t(r)]);
  }
  return out;
}

// Rank 0's row, with the memory and the timelines of all: on one machine their clocks are one.
void print_together(Row row, const Way& way, const Measured& m) {
  Communicator& all = current_process_group().communicator();
  Tensor shown = tensor({int64_t(m.best), m.shown().begin_ns}, {.device = cpu()});
  all.broadcast(shown, 0);  // the step that is rank 0's best
  const auto step = shown.to_vector<int64_t>();
  add_step(row, m.traced[size_t(step[0])], way, step[1]);
  const auto texts = gather_texts(to_json(row, true));
  if (all.rank() != 0) return;
  for (size_t r = 1; r < texts.size(); ++r) {
    const Row other = row_from_json(texts[r]);
    row.memory_mb.insert(row.memory_mb.end(), other.memory_mb.begin(), other.memory_mb.end());
    row.optimizer_mb.insert(row.optimizer_mb.end(), other.optimizer_mb.begin(), other.optimizer_mb.end());
    row.timeline.insert(row.timeline.end(), other.timeline.begin(), other.timeline.end());
  }
  std::cout << to_json(row, true) << std::endl;
}

void measure_rank(const ParallelOptions& o, int rank, int threads) {
  set_num_threads(threads);
  ProcessGroup& group = current_process_group();
  manual_seed(0);
  auto net = make_net(o);
  const double cap = o.bucket_mb.front();
  DistributedDataParallel ddp(*net, {.bucket_cap_mb = cap, .first_bucket_cap_mb = std::min(1., cap)});
  auto owned = std::make_unique<BucketWatch>(o.delay_ms, rank);
  BucketWatch& watch = *owned;
  ddp.register_comm_hook(std::move(owned));
  nn::SGD optimizer(net->parameters(), sgd());
  int64_t backward_ns = 0;
  Way way;
  way.optimizer = &optimizer;
  way.who = message("rank ", rank);
  way.devices = {current_device()};
  way.step = [&](data::Batch b) {
    optimizer.zero_grad();
    move_to_device(b);
    Tensor loss;
    {
      Phase phase("forward");
      loss = cross_entropy(ddp(b.input), b.target);
    }
    {
      Phase phase("backward");
      backward_ns = now_ns();
      loss.backward();
    }
    Phase phase("optimizer");
    optimizer.step();
  };
  const bool threaded = o.modes.front() == "ddp-threads";
  Batches batches(o.batch_sizes.front(), group.size(), rank);
  Measured m = time_steps(way, batches, o.steps, !threaded || rank == 0, [&] { group.barrier(); });
  Row row = row_of(o, threads, m, way);
  for (auto& seen : watch.seen()) row.buckets.push_back({seen.bytes, double(seen.ready_ns - backward_ns) * 1e-6});
  print_together(std::move(row), way, m);
}

}  // namespace

void measure_parallel(const ParallelOptions& o) {
  const std::string& mode = o.modes.front();
  const int cores = o.threads;  // said by the parent: a child of spawn has fewer than there are
  const int n = o.replicas.front(), threads = std::max(1, cores / n);
  set_cpu_devices(n + 1);  // and the host
  if (mode == "ddp-threads")
    run_replicas(n, [&](int rank) { measure_rank(o, rank, threads); });
  else if (mode == "ddp-processes")
    spawn(
        [&](int rank) {
          auto group = init_process_group();
          measure_rank(o, rank, threads);
        },
        n, {.threads = threads});
  else
    measure_here(o, cores);
}

}  // namespace tandem::bench
