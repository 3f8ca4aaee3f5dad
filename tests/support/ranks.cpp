#include "tests/support/ranks.h"

#include <tandem/parallel/run_replicas.h>
#include <tandem/parallel/store_server.h>

#include <thread>

namespace tandem::test {
namespace {

using Clock = std::chrono::steady_clock;

Outcome outcome_of(const std::function<void()>& f) {
  const auto begin = Clock::now();
  Outcome o;
  try {
    f();
  } catch (const CommError& e) {
    o = {e.what(), e.rank};
  } catch (const std::exception& e) {
    o.what = e.what();
  }
  o.after = std::chrono::duration_cast<std::chrono::milliseconds>(Clock::now() - begin);
  return o;
}

}  // namespace

int free_port() { return StoreServer::at("127.0.0.1", 0, "")->port(); }

std::vector<Outcome> in_threads(int ranks, const std::function<void(int)>& fn) {
  std::vector<Outcome> outcomes(static_cast<size_t>(ranks));
  std::vector<std::thread> threads;
  for (int r = 0; r < ranks; ++r) threads.emplace_back([&, r] { outcomes[size_t(r)] = outcome_of([&] { fn(r); }); });
  for (auto& t : threads) t.join();
  return outcomes;
}

std::vector<Outcome> run_group(const std::string& transport, int ranks, const std::function<void(ProcessGroup&)>& fn,
                               std::chrono::milliseconds timeout) {
  if (transport == "threads") {
    std::vector<Outcome> outcomes(static_cast<size_t>(ranks));
    run_replicas(ranks, [&](int r) { outcomes[size_t(r)] = outcome_of([&] { fn(current_process_group()); }); },
                 {.timeout = timeout, .alone = true});
    return outcomes;
  }
  const std::string address = message("tcp://127.0.0.1:", free_port());
  const Device first = current_device();
  return in_threads(ranks, [&](int r) {
    DeviceGuard mine(first.is_cpu() ? first : Device{first.kind, uint8_t(r)});  // as run_replicas has it
    auto group = init_process_group(
        {.init_method = address, .rank = r, .world_size = ranks, .timeout = timeout, .transport = transport});
    fn(group);
  });
}

}  // namespace tandem::test
