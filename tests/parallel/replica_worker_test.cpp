// A replica's thread: tasks in their poster's context, errors, deadlines, the end.
#include <tandem/core/generator.h>
#include <tandem/core/parallel_for.h>
#include <tandem/parallel/replica_worker.h>

#include <doctest/doctest.h>

#include <atomic>

using namespace tandem;
using namespace std::chrono_literals;

namespace {
auto soon() { return ReplicaWorker::Clock::now() + 10s; }
}  // namespace

TEST_CASE("a task runs in its poster's context, with the worker's replica, device and threads") {
  set_cpu_devices(4);
  auto worker = ReplicaWorker::start({.index = 2, .device = cpu(2)}, 3);
  const Context before = context();
  context().grad = false;
  manual_seed(5);
  context().random.row_offset = 17;
  const int mine = num_threads();
  uint32_t drawn = 0;
  for (int round = 0; round < 2; ++round) {
    worker->post([&] {
      CHECK(context().replica == &worker->replica());
      CHECK(current_device() == cpu(2));
      CHECK(num_threads() == 3);
      CHECK_FALSE(context().grad);
      CHECK(context().random.row_offset == 17);
      drawn = default_generator().random();
      context().random.row_offset = 99;  // stays here
    });
    REQUIRE(worker->wait_until(soon()));
    CHECK_FALSE(worker->take_error());
    CHECK(context().random.row_offset == 17);
    Generator same(5);
    CHECK(drawn == same.random());
  }
  CHECK(context().replica == nullptr);
  CHECK(num_threads() == mine);
  worker->stop();
  context() = before;
}

TEST_CASE("what a task throws is kept, and its captures are gone when it has ended") {
  auto worker = ReplicaWorker::start({}, 1);
  auto captured = std::make_shared<int>(1);
  worker->post([captured] { throw ShapeError("no"); });
  REQUIRE(worker->wait_until(soon()));
  CHECK(captured.use_count() == 1);
  CHECK_THROWS_AS(std::rethrow_exception(worker->take_error()), ShapeError);
  worker->post([] {});
  REQUIRE(worker->wait_until(soon()));
  CHECK_FALSE(worker->take_error());
  worker->stop();
}

TEST_CASE("a worker that misses a deadline goes on by itself, and owns what it needs") {
  auto worker = ReplicaWorker::start({}, 1);
  std::weak_ptr<ReplicaWorker> seen = worker;
  auto captured = std::make_shared<std::atomic<bool>>(false);
  worker->post([captured] {
    while (!*captured) std::this_thread::sleep_for(1ms);
  });
  CHECK_FALSE(worker->wait_until(ReplicaWorker::Clock::now() + 20ms));
  worker->stop();
  worker = nullptr;
  CHECK_FALSE(seen.expired());
  *captured = true;
  const auto until = soon();
  while (!seen.expired() && ReplicaWorker::Clock::now() < until) std::this_thread::sleep_for(1ms);
  CHECK(seen.expired());
  CHECK(captured.use_count() == 1);
}
