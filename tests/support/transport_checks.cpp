#include "tests/support/transport_checks.h"

#include "tests/support/child.h"
#include "tests/support/in_use.h"
#include "tests/support/temporary_folder.h"

#include <doctest/doctest.h>

#include <algorithm>
#include <atomic>
#include <cmath>
#include <csignal>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <random>
#include <thread>

namespace tandem::test {
namespace {

constexpr size_t kSizes[] = {0, 1, 63, 64, 65, 1000, 4096, 70'000};

void require_success(const std::vector<std::string>& ends) {
  for (size_t r = 0; r < ends.size(); ++r) {
    INFO("rank ", r, " of ", ends.size());
    CHECK(ends[r] == "");
  }
}

template <class T>
std::span<std::byte> bytes_of(std::vector<T>& v) {
  return std::as_writable_bytes(std::span<T>(v));
}

// Small integers, whose sums are exact in every dtype.
int64_t value_at(int rank, size_t i, bool is_unsigned, bool is_bool) {
  const int64_t v = int64_t((i * 7 + size_t(rank) * 13 + i / 4096) % 11);
  return is_bool ? v % 3 == 0 : is_unsigned ? v : v - 5;
}

template <class T>
constexpr bool is_bool = std::is_same_v<T, bool>;

template <class T>
void fill(std::byte* to, size_t n, int rank) {
  for (size_t i = 0; i < n; ++i) {
    const T v = T(value_at(rank, i, std::is_unsigned_v<T>, is_bool<T>));
    std::memcpy(to + i * sizeof(T), &v, sizeof(T));
  }
}

template <class T>
void check_values(const std::byte* got, size_t n, int ranks, ReduceOp op) {
  for (size_t i = 0; i < n; ++i) {
    int64_t want = value_at(0, i, std::is_unsigned_v<T>, is_bool<T>);
    for (int r = 1; r < ranks; ++r) {
      const int64_t v = value_at(r, i, std::is_unsigned_v<T>, is_bool<T>);
      want = op == ReduceOp::min   ? std::min(want, v)
             : op == ReduceOp::max ? std::max(want, v)
             : is_bool<T>          ? want | v
                                   : want + v;
    }
    const T exact = T(want);
    check(std::memcmp(got + i * sizeof(T), &exact, sizeof(T)) == 0, "element ", i, " of ", n, " is wrong: ", op, " of ",
          dtype_of<T>, ", expected ", want);
  }
}

void all_reduce_and_check(TestRank& rank, Dtype dtype, ReduceOp op, size_t n) {
  // One byte more than needed in front: no transport may count on an address.
  std::vector<std::byte> memory(n * size_of(dtype) + size_of(dtype) + 64, std::byte(0x5a));
  std::byte* data = memory.data() + size_of(dtype);
  dispatch_all(dtype, [&](auto zero) {
    using T = decltype(zero);
    fill<T>(data, n, rank.rank());
    rank.all_reduce({data, n * sizeof(T)}, {dtype, op});
    check_values<T>(data, n, rank.size(), op);
  });
  for (size_t i = 0; i < memory.size(); ++i)
    if (memory.data() + i < data || memory.data() + i >= data + n * size_of(dtype))
      check(memory[i] == std::byte(0x5a), "a byte outside of the tensor was written");
}

// What member `from` sends to member `to` in some exchange.
std::byte byte_of(int from, int to, size_t i) {
  return std::byte(i * 31 + i / 251 + size_t(from) * 17 + size_t(to) * 5);
}

std::vector<std::byte> message_of(int from, int to, size_t bytes) {
  std::vector<std::byte> m(bytes);
  for (size_t i = 0; i < bytes; ++i) m[i] = byte_of(from, to, i);
  return m;
}

// Carries out an exchange in which `from` sends bytes(from, to) to `to`; with `alike` everyone gets the same.
void exchange_and_check(TestRank& rank, const std::function<size_t(int, int)>& bytes, bool alike = false) {
  const int n = rank.size(), me = rank.rank();
  std::vector<std::vector<std::byte>> out(static_cast<size_t>(n)), in(static_cast<size_t>(n));
  std::vector<Part> parts(static_cast<size_t>(n));
  for (int r = 0; r < n; ++r) {
    if (r == me) continue;
    const size_t k = size_t(r);
    out[k] = message_of(me, alike ? 0 : r, bytes(me, r));
    in[k].resize(bytes(r, me));
    parts[k] = {out[k], in[k]};
    if (alike)
      for (int q = 0; q < r; ++q)
        if (q != me && !out[size_t(q)].empty() && !out[k].empty()) parts[k].send = parts[size_t(q)].send;
  }
  rank.exchange(parts);
  for (int r = 0; r < n; ++r)
    check(r == me || in[size_t(r)] == message_of(r, alike ? 0 : me, bytes(r, me)), "what came from ", r, " is wrong");
}

size_t shared_mappings() {
  const std::string maps = read_text("/proc/self/maps");
  size_t n = 0;
  for (size_t at = 0; (at = maps.find("memfd:tandem", at)) != std::string::npos; ++at) ++n;
  return n;
}

}  // namespace

void check_all_reduce(const MakeTransport& make) {
  for (int ranks : {1, 2, 3, 8}) {
    require_success(run_ranks(ranks, make, [](TestRank& rank) {
      for (int t = 0; t <= int(Dtype::boolean); ++t)
        for (ReduceOp op : {ReduceOp::sum, ReduceOp::min, ReduceOp::max})
          for (size_t n : kSizes)
            if (n <= 4096 || op == ReduceOp::sum) all_reduce_and_check(rank, Dtype(t), op, n);
    }));
  }
  for (int ranks : {4, 5, 6, 7})
    require_success(run_ranks(ranks, make, [](TestRank& rank) {
      for (size_t n : kSizes) all_reduce_and_check(rank, Dtype::f32, ReduceOp::sum, n);
    }));
  for (int ranks : {2, 3})
    require_success(run_ranks(
        ranks, make, [](TestRank& rank) { all_reduce_and_check(rank, Dtype::f32, ReduceOp::sum, 1'000'000); }));
  require_success(
      run_ranks(2, make, [](TestRank& rank) { all_reduce_and_check(rank, Dtype::f32, ReduceOp::sum, 10'000'000); }));
}

void check_weights(const MakeTransport& make) {
  for (int ranks : {2, 3, 5})
    for (size_t n : {size_t(100), size_t(200'000)}) {
      // Values that don't add up exactly: the order of the ranks is seen in the bits.
      std::vector<std::vector<float>> values(static_cast<size_t>(ranks), std::vector<float>(n));
      std::mt19937 generator(7);
      std::normal_distribution<float> normal;
      for (auto& v : values)
        for (float& x : v) x = normal(generator);
      std::fill(values[1].begin(), values[1].end(), NAN);  // a rank without samples
      auto weight_of = [&](int r) { return TestRank::Weight{double(r + 1) / 15, r == 1}; };
      std::vector<Source> sources;
      for (int r = 0; r < ranks; ++r)
        sources.push_back({bytes_of(values[size_t(r)]).data(), weight_of(r).value, true, weight_of(r).skip});
      std::vector<float> want(n);
      reduce_slices({Dtype::f32, ReduceOp::sum}, sources, bytes_of(want).data(), n);
      CHECK(std::isfinite(want[0]));
      require_success(run_ranks(ranks, make, [&](TestRank& rank) {
        auto mine = values[size_t(rank.rank())];
        const auto weight = weight_of(rank.rank());
        rank.all_reduce(bytes_of(mine), {Dtype::f32, ReduceOp::sum}, &weight);
        check(std::memcmp(mine.data(), want.data(), n * sizeof(float)) == 0, "the bits are others");
        std::fill(mine.begin(), mine.end(), NAN);
        const TestRank::Weight none{0, true};
        rank.all_reduce(bytes_of(mine), {Dtype::f32, ReduceOp::sum}, &none);
        check(mine == std::vector<float>(n), "where all are skipped the sum is not 0");
      }));
    }
}

void check_exchange(const MakeTransport& make) {
  for (int ranks : {1, 2, 3, 8})
    require_success(run_ranks(ranks, make, [](TestRank& rank) {
      const int n = rank.size();
      for (size_t bytes : kSizes) {
        const size_t more = bytes * 9;  // beyond the windows
        exchange_and_check(rank, [&](int, int) { return bytes; });
        exchange_and_check(
            rank, [&](int, int) { return more; }, true);
        exchange_and_check(rank, [&](int from, int to) { return (from + to) % 3 == 0 ? 0 : bytes * size_t(to + 1); });
        for (int root : {0, n - 1}) {
          exchange_and_check(
              rank, [&](int from, int) { return from == root ? more : 0; }, true);           // broadcast
          exchange_and_check(rank, [&](int from, int) { return from == root ? more : 0; });  // scatter
          exchange_and_check(rank, [&](int, int to) { return to == root ? more : 0; });      // gather
        }
      }
    }));
}

void check_transfer(const MakeTransport& make) {
  for (int ranks : {2, 3, 5})
    require_success(run_ranks(ranks, make, [](TestRank& rank) {
      const int n = rank.size(), me = rank.rank();
      for (size_t bytes : {1, 1000, 4096, 4097, 70'000, 1'000'000})
        for (int from = 0; from < n; ++from) {
          const int to = (from + 1) % n;
          if (me == from) rank.send(to, message_of(from, to, bytes));
          if (me == to) {
            std::vector<std::byte> got(bytes);
            rank.recv(from, got);
            check(got == message_of(from, to, bytes), bytes, " bytes from ", from, " to ", to, " are wrong");
          }
          if (from == 1) all_reduce_and_check(rank, Dtype::f32, ReduceOp::sum, 100'000);
          if (from == 0) exchange_and_check(rank, [&](int, int) { return bytes; });
        }
    }));
}

void check_many(const MakeTransport& make) {
  require_success(run_ranks(3, make, [](TestRank& rank) {
    std::mt19937 generator(11);  // the same on all ranks
    for (int i = 0; i < 1000; ++i) {
      const size_t n = generator() % (i % 50 == 0 ? 100'000 : 3000);
      switch (generator() % 4) {
        case 0: all_reduce_and_check(rank, Dtype::f32, ReduceOp::sum, n); break;
        case 1: exchange_and_check(rank, [&](int, int) { return n; }); break;
        case 2: exchange_and_check(rank, [&](int, int to) { return n * size_t(to); }); break;
        default: rank.barrier();
      }
    }
  }));
}

void check_mismatch(const MakeTransport& make) {
  for (size_t n : {size_t(100), size_t(100'000)})
    for (int ranks : {2, 4}) {
      std::atomic<int> untouched{0};
      const auto ends = run_ranks(ranks, make, [&](TestRank& rank) {
        std::vector<float> mine(n + (rank.rank() == 1 ? 1 : 0), float(rank.rank()));
        const auto before = mine;
        try {
          rank.barrier();  // everyone is connected, else the news could come before
          rank.all_reduce(bytes_of(mine), {Dtype::f32, ReduceOp::sum});
        } catch (const CommError&) {
          untouched += mine == before;
          throw;
        }
      });
      CHECK(untouched == ranks);
      for (auto& end : ends) {
        INFO(end);
        CHECK(end.find(message("of ", n, " f32")) != std::string::npos);
        CHECK(end.find(message("of ", n + 1, " f32")) != std::string::npos);
      }
    }
  // One sends where the other reduces.
  const auto ends = run_ranks(
      2, make,
      [&](TestRank& rank) {
        std::vector<float> mine(100);
        if (rank.rank() == 0)
          rank.all_reduce(bytes_of(mine), {Dtype::f32, ReduceOp::sum});
        else
          rank.send(0, bytes_of(mine));
      },
      std::chrono::seconds(5));
  for (auto& end : ends) {
    INFO(end);
    CHECK(end.find("all_reduce of 100 f32") != std::string::npos);
    CHECK(end.find("send of 400") != std::string::npos);
  }
}

void check_absence(const MakeTransport& make) {
  std::atomic<bool> over{false};
  const auto ends = run_ranks(
      3, make,
      [&](TestRank& rank) {
        std::vector<float> data(100'000);
        rank.all_reduce(bytes_of(data), {Dtype::f32, ReduceOp::sum});
        if (rank.rank() == 1) {  // computes for too long
          while (!over) std::this_thread::sleep_for(std::chrono::milliseconds(5));
          return;
        }
        const auto start = Clock::now();
        try {
          rank.all_reduce(bytes_of(data), {Dtype::f32, ReduceOp::sum});
        } catch (const CommError& e) {
          over = true;
          check(e.rank == 1, "blames ", e.rank, ": ", e.what());
          check(Clock::now() - start < std::chrono::milliseconds(900), "the deadline of 300 ms came late");
          throw;
        }
      },
      std::chrono::milliseconds(300));
  for (int r : {0, 2}) CHECK(ends[size_t(r)].find("deadline: rank 1 lags") != std::string::npos);
}

void check_close(const MakeTransport& make) {
  const auto ends = run_ranks(2, make, [&](TestRank& rank) {
    rank.barrier();
    if (rank.rank() == 1) return rank.close();
    rank.barrier();
  });
  INFO(ends[0]);
  CHECK(ends[0].find("broke") != std::string::npos);
}

void check_nothing_left(const MakeTransport& make) {
  run_ranks(2, make, [](TestRank& rank) { rank.barrier(); });
  const InUse before = in_use();
  for (int i = 0; i < 30; ++i) {
    const auto ends = run_ranks(3, make, [&](TestRank& rank) {
      rank.barrier();
      if (i % 3 == 0) rank.exchange(std::vector<Part>(3), uint64_t(rank.rank()));
    });
    CHECK(ends[0].empty() == (i % 3 != 0));
  }
  check_in_use(before);
  CHECK(shared_mappings() == 0);
}

namespace {

constexpr size_t kProcessElements = 300'001;

std::vector<float> values_of(int rank) {
  std::vector<float> v(kProcessElements);
  std::mt19937 generator(unsigned(rank) + 1);
  std::normal_distribution<float> normal;
  for (float& x : v) x = normal(generator);
  return v;
}

std::string text_of(std::vector<float>& v) {
  return {reinterpret_cast<const char*>(v.data()), v.size() * sizeof(float)};
}

bool appears(const std::string& path, std::chrono::seconds within) {
  const auto until = Clock::now() + within;
  while (!std::filesystem::exists(path)) {
    if (Clock::now() > until) return false;
    std::this_thread::sleep_for(std::chrono::milliseconds(1));
  }
  return true;
}

std::vector<Child> start(const std::string& test_case, int ranks, const std::string& folder, const char* part) {
  std::vector<Child> children;
  for (int r = 0; r < ranks; ++r)
    children.emplace_back(test_case, std::map<std::string, std::string>{{"TEST_FOLDER", folder},
                                                                        {"TEST_RANK", std::to_string(r)},
                                                                        {"TEST_SIZE", std::to_string(ranks)},
                                                                        {"TEST_PART", part}});
  return children;
}

int64_t now_ms() {
  return std::chrono::duration_cast<std::chrono::milliseconds>(Clock::now().time_since_epoch()).count();
}

}  // namespace

void check_processes(const std::string& test_case, const MakeTransport& make) {
  const int ranks = 3;
  std::string of_threads;
  require_success(run_ranks(ranks, make, [&](TestRank& rank) {
    auto v = values_of(rank.rank());
    rank.all_reduce(bytes_of(v), {Dtype::f32, ReduceOp::sum});
    if (rank.rank() == 0) of_threads = text_of(v);
  }));
  TemporaryFolder folder;
  auto children = start(test_case, ranks, folder.path(), "sum");
  for (auto& child : children) CHECK(child.wait() == 0);
  for (int r = 0; r < ranks; ++r) CHECK(read_text(folder / message("result.", r)) == of_threads);
}

void check_kill(const std::string& test_case, bool named_here) {
  const int ranks = 4, victim = 1;
  TemporaryFolder folder;
  auto children = start(test_case, ranks, folder.path(), "loop");
  for (int r = 0; r < ranks; ++r) REQUIRE(appears(folder / message("looping.", r), std::chrono::seconds(20)));
  std::this_thread::sleep_for(std::chrono::milliseconds(20));
  const int64_t killed_at = now_ms();
  children[victim].signal(SIGKILL);
  if (!named_here) {
    std::this_thread::sleep_for(std::chrono::milliseconds(30));
    write_text(folder / "verdict", "rank 1 has died");
  }
  for (int r = 0; r < ranks; ++r) {
    if (r == victim) continue;
    REQUIRE(appears(folder / message("result.", r), std::chrono::seconds(10)));
    const int code = children[size_t(r)].wait();
    CHECK(code == 0);
    const std::string result = read_text(folder / message("result.", r));
    const int64_t took = std::stoll(result) - killed_at;
    INFO("rank ", r, " after ", took, " ms: ", result);
    CHECK(took < 1000);
    CHECK(result.find("rank 1 has died") != std::string::npos);
  }
}

void rank_in_child(const MakeTransport& make) {
  const std::string folder = std::getenv("TEST_FOLDER"), part = std::getenv("TEST_PART");
  const int rank = std::stoi(std::getenv("TEST_RANK")), size = std::stoi(std::getenv("TEST_SIZE"));
  TestHub hub;
  FolderBook book(folder);
  TestRank self(hub, book, make, rank, size);
  auto v = values_of(rank);
  if (part == "sum") {
    self.all_reduce(bytes_of(v), {Dtype::f32, ReduceOp::sum});
    write_text(message(folder, "/result.", rank), text_of(v));
    return;
  }
  std::jthread store([&](std::stop_token stop) {
    while (!stop.stop_requested()) {
      if (std::filesystem::exists(folder + "/verdict")) self.membership().fail(1, "rank 1 has died");
      std::this_thread::sleep_for(std::chrono::milliseconds(5));
    }
  });
  std::string error;
  try {
    for (int i = 0; i < 1'000'000; ++i) {
      std::fill(v.begin(), v.end(), 1.0f);
      self.all_reduce(bytes_of(v), {Dtype::f32, ReduceOp::sum});
      if (i == 3) write_text(message(folder, "/looping.", rank), "");
    }
  } catch (const CommError& e) {
    error = message(now_ms(), " ", e.what());
  }
  write_text(message(folder, "/result.part.", rank), error);
  std::filesystem::rename(message(folder, "/result.part.", rank), message(folder, "/result.", rank));
}

}  // namespace tandem::test
