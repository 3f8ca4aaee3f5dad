#include <tandem/parallel/socket_transport.h>
#include <tandem/parallel/tcp_socket.h>

#include "tests/support/log_capture.h"
#include "tests/support/transport_checks.h"

#include <doctest/doctest.h>

#include <algorithm>
#include <thread>

using namespace tandem;
using namespace tandem::test;

namespace {

std::unique_ptr<Transport> make(Membership& membership, std::shared_ptr<Channel> channel, AddressBook& book) {
  return std::make_unique<SocketTransport>(membership, std::move(channel), book, "127.0.0.1", "a secret");
}

SocketAddress address_of(const std::string& text) {
  const size_t space = text.find(' ');
  return resolve(text.substr(0, space), std::stoi(text.substr(space + 1))).front();
}

// Strangers call at every address before a member learns of it, and stay.
class NoisyBook final : public AddressBook {
 public:
  explicit NoisyBook(AddressBook& book) : book_(book) {}
  void put(const std::string& key, const std::string& value) override { book_.put(key, value); }
  std::string get(const std::string& key, Wait& wait) override {
    const std::string text = book_.get(key, wait);
    const SocketAddress a = address_of(text);
    const auto deadline = Clock::now() + std::chrono::seconds(5);
    const std::vector<char> noise(1 << 20, 'x');
    for (int i = 0; i < 150; ++i) {
      std::string why;
      Descriptor s = connect_to(a, deadline, why);
      if (!s) continue;
      if (i % 3 == 1) send_all(s.get(), noise.data(), 20, deadline);  // half a greeting
      if (i % 3 == 2) {                                               // much more than one, cut off
        send_all(s.get(), noise.data(), noise.size(), Clock::now() + std::chrono::milliseconds(1));
        const linger reset{1, 0};
        ::setsockopt(s.get(), SOL_SOCKET, SO_LINGER, &reset, sizeof reset);
        s = Descriptor();
      }
      if (s) strangers_.push_back(std::move(s));
    }
    return text;
  }

 private:
  AddressBook& book_;
  std::vector<Descriptor> strangers_;
};

}  // namespace

TEST_CASE("sockets reduce exactly, whatever the dtype, size and number of ranks") { check_all_reduce(make); }
TEST_CASE("sockets apply factors and skips, in the order of the ranks") { check_weights(make); }
TEST_CASE("sockets exchange parts of any size") { check_exchange(make); }
TEST_CASE("sockets transfer between pairs") { check_transfer(make); }
TEST_CASE("sockets stand a thousand collectives") { check_many(make); }
TEST_CASE("sockets refuse different collectives on all ranks") { check_mismatch(make); }
TEST_CASE("sockets notice who does not come") { check_absence(make); }
TEST_CASE("sockets notice an end that was closed") { check_close(make); }
TEST_CASE("sockets leave nothing behind") { check_nothing_left(make); }
TEST_CASE("sockets give processes the bits that threads get") { check_processes("a rank by sockets", make); }
TEST_CASE("sockets end with the verdict when a process dies") { check_kill("a rank by sockets", false); }
TEST_CASE("a rank by sockets" * doctest::skip()) { rank_in_child(make); }

TEST_CASE("strangers at a data port harm nobody") {
  LogCapture log;
  const auto ends = run_ranks(
      3,
      [](Membership& membership, std::shared_ptr<Channel> channel, AddressBook& book) {
        NoisyBook noisy(book);
        return make(membership, std::move(channel), noisy);
      },
      [](TestRank& rank) { rank.barrier(); });
  for (auto& end : ends) CHECK(end == "");
  CHECK(log.find("proved no token") != "");
}

TEST_CASE("a member with another token is not let in") {
  LogCapture log;
  const auto ends = run_ranks(
      2,
      [](Membership& membership, std::shared_ptr<Channel> channel, AddressBook& book) {
        const std::string token = membership.rank() == 0 ? "a secret" : "a guess";
        return std::make_unique<SocketTransport>(membership, std::move(channel), book, "127.0.0.1", token);
      },
      [](TestRank& rank) { rank.barrier(); }, std::chrono::milliseconds(300));
  for (auto& end : ends) CHECK(end.find("deadline") != std::string::npos);
  CHECK(log.find("proved no token") != "");
}
