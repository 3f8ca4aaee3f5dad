// ProcessGroup between processes: how they meet, what they compute, and what they hear when one of them ends.
#include "tests/support/child.h"
#include "tests/support/collective_cases.h"
#include "tests/support/environment.h"
#include "tests/support/in_use.h"
#include "tests/support/ranks.h"
#include "tests/support/temporary_folder.h"
#include "tests/support/test_device.h"
#include "tests/support/text.h"

#include <tandem/core/generator.h>
#include <tandem/core/parallel_for.h>
#include <tandem/nn/linear.h>
#include <tandem/ops/binary.h>
#include <tandem/ops/random.h>
#include <tandem/ops/reduce.h>
#include <tandem/parallel/distributed_data_parallel.h>
#include <tandem/parallel/process_group.h>
#include <tandem/parallel/run_replicas.h>

#include <doctest/doctest.h>

#include <chrono>
#include <csignal>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <thread>

using namespace tandem;
using namespace tandem::test;
using namespace std::chrono_literals;

namespace {

std::string variable(const char* name) {
  const char* v = std::getenv(name);
  return v ? v : "";
}

// This process is one of the ranks: where the group meets, and what to do there.
ProcessGroupOptions from_environment() {
  return {.init_method = "file://" + variable("TEST_MEETING"),
          .rank = std::atoi(variable("TEST_RANK").c_str()),
          .world_size = std::atoi(variable("TEST_WORLD").c_str()),
          .timeout = 10s,
          .transport = variable("TEST_TRANSPORT")};
}

std::vector<Child> start(const std::string& test_case, int n, const TemporaryFolder& tmp, const std::string& transport,
                         std::map<std::string, std::string> more = {}) {
  std::vector<Child> ranks;
  for (int r = 0; r < n; ++r) {
    more["TEST_MEETING"] = tmp / "meeting";
    more["TEST_RANK"] = std::to_string(r);
    more["TEST_WORLD"] = std::to_string(n);
    more["TEST_TRANSPORT"] = transport;
    more["TEST_FOLDER"] = tmp / "";
    ranks.emplace_back(test_case, more);
  }
  return ranks;
}

void write(const std::string& name, const std::string& text) {
  const std::string path = variable("TEST_FOLDER") + name;
  std::ofstream(path + ".part") << text;
  std::filesystem::rename(path + ".part", path);
}

std::string read(const std::string& path) {
  std::ifstream in(path);
  return {std::istreambuf_iterator<char>(in), {}};
}

}  // namespace

TEST_CASE("a rank that checks all collectives" * doctest::skip()) {
  set_num_threads(1);  // teams that spin would take each other's cores
  const auto o = from_environment();
  auto group = init_process_group(o);
  CHECK(&current_process_group() == &group);
  CHECK(group.local_rank() == o.rank);
  CHECK(group.local_size() == o.world_size);
  check_collectives(group.communicator(), 20'000);
  auto again = group.new_communicator();
  Tensor x = full({70'000}, o.rank);
  again->all_reduce(x);
  CHECK(x.to_vector()[69'999] == o.world_size * (o.world_size - 1) / 2);
  group.barrier();
}

TEST_CASE("collectives of processes, by shared memory and by sockets") {
  for (const char* transport : {"auto", "shm", "sockets"})
    for (int n : {1, 2, 3}) {
      CAPTURE(transport);
      CAPTURE(n);
      TemporaryFolder tmp;
      auto ranks = start("a rank that checks all collectives", n, tmp, transport);
      for (auto& rank : ranks) CHECK(rank.wait() == 0);
    }
}

namespace {

// Bits of a few steps' gradients, which must not depend on how they were brought together.
std::string train(int rank) {
  std::string bits;
  manual_seed(4);
  nn::Linear net(40, 300);
  DistributedDataParallel ddp(net, {.bucket_cap_mb = 0.01, .first_bucket_cap_mb = 0.001});
  for (int step = 0; step < 3; ++step) {
    net.zero_grad();
    manual_seed(uint64_t(10 * step + rank));
    Tensor x = randn({2 + rank, 40});
    Tensor y = ddp(x);
    mean(y * y).backward();
    for (auto& p : net.parameters())
      for (float v : p.grad().to_vector()) bits += message(std::bit_cast<uint32_t>(v), '\n');
  }
  return bits;
}

}  // namespace

TEST_CASE("a rank that trains" * doctest::skip()) {
  const auto o = from_environment();
  DeviceGuard here(test_device(on_cpu() ? 0 : o.rank));
  auto group = init_process_group(o);
  write("bits" + std::to_string(o.rank), train(o.rank));
}

TEST_CASE("threads, shared memory and sockets give the same bits, at any number of ranks") {
  for (int n : {2, 3}) {
    std::string threads;
    run_replicas(n, [&](int rank) {
      const std::string bits = train(rank);
      if (rank == 0) threads = bits;
    });
    REQUIRE(!threads.empty());
    for (const char* transport : {"shm", "sockets"}) {
      CAPTURE(transport);
      TemporaryFolder tmp;
      auto ranks = start("a rank that trains", n, tmp, transport);
      for (auto& rank : ranks) CHECK(rank.wait() == 0);
      for (int r = 0; r < n; ++r) CHECK(read(tmp / ("bits" + std::to_string(r))) == threads);
    }
  }
}

TEST_CASE("a rank that reduces until somebody ends" * doctest::skip()) {
  const auto o = from_environment();
  auto group = init_process_group(o);
  Tensor x = zeros({100'000});
  write("ready" + std::to_string(o.rank), "");
  try {
    for (;;) group.communicator().all_reduce(x, {.label = "a sum"});
  } catch (const CommError& e) {
    write("end" + std::to_string(o.rank), message(e.rank, ' ', e.what()));
  }
}

TEST_CASE("the death of a process ends the others' collectives within a second, naming it") {
  for (const char* transport : {"shm", "sockets"})
    for (int victim : {0, 2}) {
      CAPTURE(transport);
      CAPTURE(victim);
      TemporaryFolder tmp;
      auto ranks = start("a rank that reduces until somebody ends", 3, tmp, transport);
      const auto deadline = std::chrono::steady_clock::now() + 20s;
      auto all_ready = [&] {
        for (int r = 0; r < 3; ++r)
          if (!std::filesystem::exists(tmp / ("ready" + std::to_string(r)))) return false;
        return true;
      };
      while (!all_ready() && std::chrono::steady_clock::now() < deadline) std::this_thread::sleep_for(5ms);
      std::this_thread::sleep_for(30ms);
      const auto killed = std::chrono::steady_clock::now();
      ranks[size_t(victim)].signal(SIGKILL);
      for (int r = 0; r < 3; ++r)
        if (r != victim) CHECK(ranks[size_t(r)].wait() == 0);
      const auto took = std::chrono::steady_clock::now() - killed;
      CHECK(took < 10s);
      MESSAGE(transport, " rank ", victim, " killed: all knew after ",
              std::chrono::duration_cast<std::chrono::milliseconds>(took).count(), " ms");
      for (int r = 0; r < 3; ++r) {
        if (r == victim) continue;
        const std::string end = read(tmp / ("end" + std::to_string(r)));
        CAPTURE(end);
        CHECK(end.starts_with(message(victim, ' ')));
        CHECK(end.find(message("rank ", victim)) != std::string::npos);
      }
    }
}

namespace {

std::unique_ptr<ProcessGroup> static_group;

}  // namespace

TEST_CASE("a rank whose group is a static object" * doctest::skip()) {
  static_group = std::make_unique<ProcessGroup>(from_environment());
  auto others = static_group->new_group({0, 1});
  if (!others) return;
  while (!std::filesystem::exists(variable("TEST_FOLDER") + "gone")) std::this_thread::sleep_for(1ms);
  Tensor x = ones({100});
  others->all_reduce(x);
  CHECK(x.to_vector()[99] == 2);
}

TEST_CASE("a group that ends with a program's static objects says goodbye") {
  for (const char* transport : {"shm", "sockets"}) {
    CAPTURE(std::string(transport));
    TemporaryFolder tmp;
    auto ranks = start("a rank whose group is a static object", 3, tmp, transport);
    CHECK(ranks[2].wait() == 0);
    std::ofstream(tmp / "gone").close();
    for (int r : {0, 1}) CHECK(ranks[size_t(r)].wait() == 0);
  }
}

namespace {

constexpr auto kPatience = 2000ms;  // of the group in which a checkpoint is written

}  // namespace

TEST_CASE("a rank of which the first writes for long" * doctest::skip()) {
  auto o = from_environment();
  o.timeout = kPatience;
  auto await_all = [&](const std::string& sign) {
    write(sign + std::to_string(o.rank), "");
    for (int r = 0; r < o.world_size; ++r)
      while (!std::filesystem::exists(variable("TEST_FOLDER") + sign + std::to_string(r)))
        std::this_thread::sleep_for(1ms);
  };
  await_all("up");  // however long processes take to start here: that is not what the deadline is for
  auto group = init_process_group(o);
  await_all("joined");  // nobody is stopped while others connect yet
  const int victim = std::atoi(variable("TEST_VICTIM").c_str());
  try {
    group.rank0_only([&] {
      write("inside", "");
      if (victim == 0) std::raise(SIGSTOP);
      std::this_thread::sleep_for(5 * kPatience / 2);
    });
    write("end" + std::to_string(o.rank), "well");
  } catch (const CommError& e) {
    write("end" + std::to_string(o.rank), message(e.rank, ' ', e.what()));
  }
}

TEST_CASE("rank0_only waits as long as processes run, and names one that is stopped meanwhile") {
  struct Run {
    const char* transport;
    int victim;
    TemporaryFolder tmp = {};
    std::vector<Child> ranks = {};
  };
  Run runs[] = {{"shm", -1}, {"shm", 0}, {"sockets", 2}};  // side by side: most of it is waiting
  for (Run& run : runs)
    run.ranks = start("a rank of which the first writes for long", 3, run.tmp, run.transport,
                      {{"TEST_VICTIM", std::to_string(run.victim)}});
  for (Run& run : runs) {
    const auto deadline = std::chrono::steady_clock::now() + 20s;
    while (!std::filesystem::exists(run.tmp / "inside") && std::chrono::steady_clock::now() < deadline)
      std::this_thread::sleep_for(1ms);
    if (run.victim > 0) run.ranks[size_t(run.victim)].signal(SIGSTOP);
  }
  for (Run& run : runs)
    for (int r = 0; r < 3; ++r) {
      CAPTURE(run.transport);
      CAPTURE(run.victim);
      if (r == run.victim) continue;
      CHECK(run.ranks[size_t(r)].wait() == 0);
      const std::string end = read(run.tmp / ("end" + std::to_string(r)));
      CAPTURE(end);
      if (run.victim < 0) {
        CHECK(end == "well");
        continue;
      }
      CHECK(end.starts_with(message(run.victim, " [")));
      CHECK(says(end, "'rank0_only'"));
      CHECK(says(end, "is silent"));
    }
}

TEST_CASE("what can't be joined says why") {
  CHECK_THROWS_WITH_AS(
      ProcessGroup({.backend = "smoke signals"}),
      "[init_process_group] there is no backend 'smoke signals': use backend \"cpu\", \"nccl\" or \"mpi\"", Error);
  if (on_cpu())
    CHECK_THROWS_WITH_AS(
        ProcessGroup({.backend = "nccl"}),
        "[init_process_group] backend nccl is for GPUs, and there is no CUDA in this build: use backend \"cpu\"",
        Error);
  {
    Variable backend("TANDEM_BACKEND", "drums");  // what is meant where the program says nothing
    CHECK_THROWS_WITH_AS(init_process_group(), doctest::Contains("there is no backend 'drums'"), Error);
    CHECK_THROWS_WITH_AS(ProcessGroup({.backend = "cpu"}), doctest::Contains("RANK is not set"), Error);
  }
  CHECK_THROWS_WITH_AS(ProcessGroup({.backend = "mpi", .transport = "shm"}), doctest::Contains("MPI moves the bytes"),
                       Error);
  CHECK_THROWS_WITH_AS(
      ProcessGroup({.init_method = "tcp://127.0.0.1:0", .rank = 0, .world_size = 1, .transport = "pigeons"}),
      doctest::Contains("auto, shm and sockets"), Error);
  TemporaryFolder tmp;
  CHECK_THROWS_WITH_AS(
      ProcessGroup({.init_method = "file://" + (tmp / "m"), .rank = 0, .world_size = 2, .timeout = 200ms}),
      doctest::Contains("1"), CommError);
}

TEST_CASE("a group of one, by an address of its own") {
  for (int i = 0; i < 3; ++i) {
    auto group = init_process_group({.init_method = "tcp://127.0.0.1:0", .rank = 0, .world_size = 1});
    CHECK(group.size() == 1);
    Tensor x = full({3}, 2);
    group.communicator().all_reduce(x);
    CHECK(x.to_vector() == std::vector<float>(3, 2));
  }
  CHECK(context().process_group == nullptr);
}

TEST_CASE("a thousand groups made and ended on one port leave no thread, descriptor or mapping behind") {
  const std::string address = message("tcp://127.0.0.1:", free_port());
  auto in_two_threads = [&](int groups) {
    auto rank = [&](int r) {
      for (int i = 0; i < groups; ++i) {
        auto group = init_process_group({.init_method = address,
                                         .rank = r,
                                         .world_size = 2,
                                         .timeout = 60s,
                                         .transport = i % 2 ? "shm" : "sockets"});
        group.barrier();
      }
    };
    std::string error;
    std::thread other([&] { error = error_of([&] { rank(1); }); });
    CHECK(error_of([&] { rank(0); }) == "");
    other.join();
    CHECK(error == "");
  };
  in_two_threads(2);  // what a first group makes once
  const InUse before = in_use();
  const auto begin = std::chrono::steady_clock::now();
  in_two_threads(1000);
  MESSAGE("a thousand groups of two in ", (std::chrono::steady_clock::now() - begin) / 1ms, " ms");
  check_in_use(before);
  CHECK(count(read("/proc/self/maps"), "memfd:tandem") == 0);
}

TEST_CASE("groups of one thread end in any order") {
  auto one = [] {
    return std::make_unique<ProcessGroup>(
        ProcessGroup::Options{.init_method = "tcp://127.0.0.1:0", .rank = 0, .world_size = 1});
  };
  auto a = one(), b = one(), c = one();
  CHECK(&current_process_group() == c.get());
  b.reset();
  CHECK(&current_process_group() == c.get());
  c.reset();
  CHECK(&current_process_group() == a.get());
  a.reset();
  CHECK_THROWS_AS(current_process_group(), Error);
}
