// The store: its operations and their deadlines, and what it does with those who have no business there.
#include "tests/support/environment.h"
#include "tests/support/in_use.h"
#include "tests/support/log_capture.h"

#include <tandem/core/error.h>
#include <tandem/parallel/store.h>
#include <tandem/parallel/store_protocol.h>
#include <tandem/parallel/tcp_socket.h>

#include <doctest/doctest.h>
#include <fcntl.h>
#include <sys/resource.h>

#include <atomic>
#include <cstdlib>
#include <filesystem>
#include <thread>

using namespace tandem;
using namespace tandem::test;
using std::chrono::milliseconds;

namespace {

using Clock = std::chrono::steady_clock;

StoreOptions serving() { return {.port = 0, .is_master = true, .timeout = milliseconds(20'000)}; }
StoreOptions client_of(const Store& store) { return {.port = store.port(), .timeout = milliseconds(20'000)}; }

int64_t ms_since(Clock::time_point begin) {
  return std::chrono::duration_cast<milliseconds>(Clock::now() - begin).count();
}

Deadline in(int ms) { return Clock::now() + milliseconds(ms); }

// A connection that has not said anything yet.
Descriptor stranger(const Store& store) {
  std::string why;
  Descriptor fd = connect_to(resolve("127.0.0.1", store.port())[0], in(2000), why);
  INFO(why);
  REQUIRE(bool(fd));
  return fd;
}

// Whether the other side closes, within that time.
bool is_closed(int fd, int ms) {
  char bytes[4096];
  const auto until = in(ms);
  while (recv_all(fd, bytes, 1, until)) {
  }
  return errno != ETIMEDOUT;
}

}  // namespace

TEST_CASE("set, get, add and compare_set, seen by another client") {
  Store master(serving()), other(client_of(master));
  master.set("key", "value");
  CHECK(other.get("key") == "value");
  other.set("key", std::string("\0\xff\n", 3));
  CHECK(master.get("key") == std::string("\0\xff\n", 3));
  master.set("empty", "");
  CHECK(other.get("empty").empty());

  CHECK(master.add("count", 5) == 5);
  CHECK(other.add("count", -7) == -2);
  CHECK(master.get("count") == "-2");
  CHECK_THROWS_WITH_AS(other.add("empty", 1), "[store] add: key 'empty' holds no number", CommError);

  // As torch.distributed's compare_set.
  CHECK(master.compare_set("c", "absent", "new") == "absent");
  CHECK(master.compare_set("c", "", "first") == "first");
  CHECK(other.compare_set("c", "other", "second") == "first");
  CHECK(other.compare_set("c", "first", "second") == "second");
}

TEST_CASE("get and wait return when another client sets the key, and give up at their deadline") {
  Store master(serving()), other(client_of(master));
  std::thread late([&] {
    std::this_thread::sleep_for(milliseconds(100));
    other.set("a", "1");
    other.set("b", "2");
  });
  master.wait({"a", "b"});
  CHECK(master.get("b") == "2");
  late.join();

  const auto begin = Clock::now();
  CHECK_THROWS_WITH_AS(master.get("never", milliseconds(150)), "[store] key 'never' was not set within 150 ms",
                       CommError);
  CHECK(ms_since(begin) >= 150);
  CHECK(ms_since(begin) < 1000);
  CHECK_THROWS_AS(master.wait({"a", "never"}, milliseconds(50)), CommError);
}

TEST_CASE("many threads add to one key") {
  Store master(serving());
  std::vector<std::thread> threads;
  for (int i = 0; i < 4; ++i)
    threads.emplace_back([&] {
      Store mine(client_of(master));
      for (int k = 0; k < 50; ++k) mine.add("sum", 1);
    });
  for (auto& t : threads) t.join();
  CHECK(master.add("sum", 0) == 200);
}

TEST_CASE("prefixes keep users of a store apart") {
  Store master(serving());
  StoreOptions o = client_of(master);
  o.prefix = "a/";
  Store a(o);
  a.set("k", "1");
  CHECK(master.get("a/k") == "1");
  CHECK_THROWS_AS(master.get("k", milliseconds(30)), CommError);
}

TEST_CASE("two stores of a process at one address share one server") {
  Store first(serving());
  StoreOptions again = serving();
  again.port = first.port();
  Store second(again);
  first.set("k", "v");
  CHECK(second.get("k") == "v");
}

TEST_CASE("a value longer than a frame is refused here, and the store goes on") {
  Store master(serving());
  CHECK_THROWS_AS(master.set("k", std::string(2 << 20, 'x')), CommError);
  const std::string large(900'000, 'y');
  master.set("k", large);
  CHECK(master.get("k") == large);
}

TEST_CASE("a client comes before its store") {
  LogCapture quiet;
  int port = 0;
  {
    Store probe(serving());
    port = probe.port();
  }
  std::atomic<bool> got{false};
  std::thread early([&] {
    Store client({.port = port, .timeout = milliseconds(20'000)});
    got = client.get("k") == "v";
  });
  std::this_thread::sleep_for(milliseconds(150));
  StoreOptions o = serving();
  o.port = port;
  Store master(o);
  master.set("k", "v");
  early.join();
  CHECK(got);
}

TEST_CASE("a client whose store is not there says so at its deadline") {
  int port = 0;
  {
    Store probe(serving());
    port = probe.port();
  }
  const auto begin = Clock::now();
  std::string what;
  try {
    Store client({.port = port, .timeout = milliseconds(300)});
  } catch (const CommError& e) {
    what = e.what();
    CHECK(e.rank == 0);
  }
  CHECK(ms_since(begin) < 2000);
  CHECK(what.find(message("rank 0's store at 127.0.0.1:", port, " could not be reached within ")) != what.npos);
  CHECK(what.find("Connection refused") != what.npos);
  CHECK(what.find("each machine's own") != what.npos);
}

TEST_CASE("a get whose store ends is made again at the next one") {
  LogCapture quiet;
  auto master = std::make_unique<Store>(serving());
  const int port = master->port();
  Store client(client_of(*master));
  std::string got;
  std::thread waits([&] { got = client.get("k"); });
  std::this_thread::sleep_for(milliseconds(100));
  master.reset();
  StoreOptions o = serving();
  o.port = port;
  master = std::make_unique<Store>(o);
  master->set("k", "second");
  waits.join();
  CHECK(got == "second");
}

TEST_CASE("while one request waits for the store to come back, another gives up at its own deadline") {
  auto master = std::make_unique<Store>(StoreOptions{.port = 0, .is_master = true});
  Store client({.port = master->port()});
  master.reset();
  std::thread patient([&] { CHECK_THROWS_AS(client.get("key", milliseconds(1500)), CommError); });
  std::this_thread::sleep_for(milliseconds(100));
  const auto begin = Clock::now();
  CHECK_THROWS_AS(client.get("key", milliseconds(100)), CommError);
  CHECK(Clock::now() - begin < milliseconds(1000));
  patient.join();
}

TEST_CASE("the port of another program is refused, and named") {
  Descriptor taken = listen_at(resolve("127.0.0.1", 0)[0]);
  const int port = port_of(local_address(taken.get()));
  StoreOptions o = serving();
  o.port = port;
  const std::string expected =
      message("can't listen at 127.0.0.1:", port,
              ": Address already in use; another program or group listens there: choose another port");
  CHECK_THROWS_WITH_AS(Store{o}, expected.c_str(), CommError);
}

TEST_CASE("what listens at the address is no store") {
  Descriptor other = listen_at(resolve("127.0.0.1", 0)[0]);
  const int port = port_of(local_address(other.get()));
  std::thread web([&] {
    Descriptor fd;
    while (!fd) fd = accept_at(other.get());
    const std::string page(200, 'h');
    send_all(fd.get(), page.data(), page.size(), in(1000));
    is_closed(fd.get(), 2000);
  });
  const std::string expected = message("[store] 127.0.0.1:", port, ": what listens there is not a store of Tandem");
  CHECK_THROWS_WITH_AS(Store({.port = port, .timeout = milliseconds(3000)}), expected.c_str(), CommError);
  web.join();
}

TEST_CASE("without a token only loopback is served") {
  try {
    Store everywhere({.host = "0.0.0.0", .port = 0, .is_master = true});
    FAIL("it was served");
  } catch (const CommError& e) {
    CHECK(std::string(e.what()).find("export TANDEM_TOKEN") != std::string::npos);
  }
}

TEST_CASE("the token must be the store's") {
  LogCapture log;
  const Variable token("TANDEM_TOKEN", "right");
  Store master(serving());
  {
    Store same(client_of(master));
    same.set("k", "v");
  }
  const Variable wrong("TANDEM_TOKEN", "wrong");
  const auto begin = Clock::now();
  try {
    Store other(client_of(master));
    FAIL("it was let in");
  } catch (const CommError& e) {
    CHECK(std::string(e.what()).find("TANDEM_TOKEN must be the same for all ranks") != std::string::npos);
  }
  CHECK(ms_since(begin) < 1000);  // at once, not at the deadline
  CHECK(master.get("k") == "v");
  CHECK(!log.find("its token is not this group's").empty());
}

TEST_CASE("noise is refused") {
  LogCapture log;
  const Variable token("TANDEM_TOKEN", "secret");
  Store master(serving());
  std::string noise(10 << 20, '\0');
  for (size_t i = 0; i < noise.size(); ++i) noise[i] = char(i * 2654435761u >> 13);
  Descriptor fd = stranger(master);
  CHECK_FALSE(send_all(fd.get(), noise.data(), noise.size(), in(3000)));
  CHECK(!log.find("what it says is not for a store").empty());
  master.set("k", "v");
  CHECK(master.get("k") == "v");
}

TEST_CASE("an answer recorded elsewhere proves nothing") {
  LogCapture log;
  Store master(serving());
  Descriptor fd = stranger(master);
  StoreChallenge challenge;
  REQUIRE(recv_all(fd.get(), &challenge, sizeof challenge, in(1000)));
  StoreAnswer answer;
  answer.nonce = make_nonce();
  answer.proof = prove("", kClientRole, make_nonce(), answer.nonce);
  REQUIRE(send_all(fd.get(), &answer, sizeof answer, in(1000)));
  StoreWelcome welcome;
  REQUIRE(recv_all(fd.get(), &welcome, sizeof welcome, in(1000)));
  CHECK(welcome.accepted == 0);
  CHECK(is_closed(fd.get(), 1000));
}

TEST_CASE("a proven client that sends nonsense loses its connection, and nobody else") {
  LogCapture log;
  Store master(serving());
  auto proven = [&] {
    Descriptor fd = stranger(master);
    StoreChallenge challenge;
    StoreAnswer answer;
    StoreWelcome welcome;
    REQUIRE(recv_all(fd.get(), &challenge, sizeof challenge, in(1000)));
    answer.proof = prove("", kClientRole, challenge.nonce, answer.nonce);
    REQUIRE(send_all(fd.get(), &answer, sizeof answer, in(1000)));
    REQUIRE(recv_all(fd.get(), &welcome, sizeof welcome, in(1000)));
    REQUIRE(welcome.accepted == 1);
    return fd;
  };
  FrameHead too_long;
  too_long.bytes = kMaxFrameBytes + 1;
  too_long.op = StoreOp::set;
  std::vector<std::string> nonsense{std::string(reinterpret_cast<const char*>(&too_long), sizeof too_long),
                                    to_frame(StoreOp(99), 1, ""),
                                    to_frame(StoreOp::set, 1, "abc"),
                                    to_frame(StoreOp::set, 1, FrameWriter().number(1000).body()),
                                    to_frame(StoreOp::set, 1, FrameWriter().number(-1).body()),
                                    to_frame(StoreOp::verdict, 1, FrameWriter().number(0).text("dead").body()),
                                    to_frame(StoreOp::beat, 1, FrameWriter().number(1).body()),
                                    to_frame(StoreOp::join, 1, FrameWriter().number(0).number(-5).body())};
  for (size_t i = 0; i < nonsense.size(); ++i) {
    CAPTURE(i);
    Descriptor fd = proven();
    REQUIRE(send_all(fd.get(), nonsense[i].data(), nonsense[i].size(), in(1000)));
    CHECK(is_closed(fd.get(), 1000));
  }
  master.set("k", "v");
  CHECK(master.get("k") == "v");
}

TEST_CASE("half-open connections are closed after two seconds") {
  LogCapture log;
  Store master(serving());
  Descriptor silent = stranger(master), slow = stranger(master);
  REQUIRE(send_all(slow.get(), "TANDEM", 6, in(1000)));
  const auto begin = Clock::now();
  CHECK(is_closed(silent.get(), 5000));
  CHECK(is_closed(slow.get(), 5000));
  CHECK(ms_since(begin) > 1500);
  CHECK(ms_since(begin) < 3500);
  CHECK(!log.find("said nothing for two seconds").empty());
}

TEST_CASE("a flood of connections keeps nobody out, and fills no log") {
  LogCapture log;
  Store master(serving()), member(client_of(master));
  const InUse before = in_use();
  std::vector<Descriptor> flood;
  std::atomic<bool> joined{false};
  std::thread newcomer;
  for (int i = 0; i < 300; ++i) {
    flood.push_back(stranger(master));
    if (i == 150)
      newcomer = std::thread([&] {
        Store late(client_of(master));
        late.set("late", "came");
        joined = true;
      });
  }
  CHECK(member.get("late") == "came");
  newcomer.join();
  CHECK(joined);
  // The newest strangers may still be there; all older ones are gone.
  for (int i = 0; i < 200; ++i) CHECK(is_closed(flood[size_t(i)].get(), 1000));
  CHECK(in_use().descriptors - before.descriptors <= 300 + 64);
  CHECK(log.lines() < 20);
  CHECK(!log.find("too many have come").empty());
}

TEST_CASE("a store leaves no thread and no descriptor behind, and its sockets are close-on-exec") {
  { Store warm_up(serving()); }
  const InUse before = in_use();
  for (int i = 0; i < 20; ++i) {
    Store master(serving()), other(client_of(master));
    other.set("k", "v");
    if (i == 0)
      for (auto& entry : std::filesystem::directory_iterator("/proc/self/fd")) {
        const int fd = std::stoi(entry.path().filename());
        std::error_code ignored;
        const std::string target = std::filesystem::read_symlink(entry.path(), ignored);
        CAPTURE(target);
        if (target.starts_with("socket:") || target.starts_with("anon_inode:"))
          CHECK((::fcntl(fd, F_GETFD) & FD_CLOEXEC) != 0);
      }
  }
  check_in_use(before);
}

TEST_CASE("a socket that is connected to itself counts as none") {
  // A port of the range from which outgoing connections take theirs: about one attempt in 28,000 gets this very one.
  Descriptor probe = listen_at(resolve("127.0.0.1", 0)[0]);
  const SocketAddress a = local_address(probe.get());
  probe = Descriptor();
  std::string why;
  for (int i = 0; i < 20'000; ++i) {
    Descriptor fd = connect_to(a, in(1000), why);
    REQUIRE_FALSE(bool(fd));
  }
  CHECK(why == "Connection refused");
}
