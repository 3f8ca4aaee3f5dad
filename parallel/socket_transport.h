/// Not installed. SocketTransport: collectives over TCP, one connection per pair of members and one poll loop in the
/// calling thread, which the group's verdict wakes.
///
/// Each collective begins with a header to everyone; small data travels with it. In a larger all_reduce each member
/// takes its share of everyone's values, in a ring of pieces per peer, reduces a piece as soon as all have sent it, in
/// the order of the members, and sends the result to all. All of it goes on at once, in both directions; a result
/// overwrites values in the caller's memory only after they were sent, since it could not have been made without them.
#pragma once
#include <tandem/parallel/address_book.h>
#include <tandem/parallel/descriptor.h>
#include <tandem/parallel/membership.h>
#include <tandem/parallel/transport.h>

#include <deque>
#include <memory>
#include <vector>

namespace tandem {

class TANDEM_API SocketTransport final : public Transport {
 public:
  /// Collective among the members. `address` is that of this machine's interface that reaches the others, `token` the
  /// secret that they share. Throws CommError.
  SocketTransport(Membership& membership, std::shared_ptr<Channel> channel, AddressBook& book,
                  const std::string& address, const std::string& token);
  ~SocketTransport() override;

  void exchange(const Header& header, std::span<const Part> parts, Wait& wait) override;
  void all_reduce(const Header& header, std::span<std::byte> data, const Reduction& reduction, Wait& wait) override;
  void transfer(const Header& header, int peer, std::span<const std::byte> send, std::span<std::byte> recv,
                Wait& wait) override;

 private:
  static constexpr size_t kSmallBytes = 4096;
  struct Message {
    Header header;
    std::byte data[kSmallBytes];
  };
  struct Peer {
    Descriptor socket;
    std::deque<std::span<const std::byte>> out;  // still to be sent
    size_t in = 0;                               // bytes received in this phase
    size_t expected = 0;                         // of them, behind the header
    bool wanted = false;                         // whether more can be taken now
    Message sent, received;
  };
  class Reducing;
  // Nothing is left to be sent from the caller's memory, however a collective ends.
  struct Cleaner {
    SocketTransport& transport;
    ~Cleaner();
  };

  void begin(Wait& wait);
  void post(int member, const Header& header, std::span<const std::byte> data, size_t expected);
  void swap(const Header& header, std::span<const Part> parts, Wait& wait);
  template <class Place, class Taken, class Done>
  void pump(Wait& wait, Place place, Taken taken, Done done);
  bool push(int member, Wait& wait);
  size_t pull(int member, std::span<std::byte> to, Wait& wait);
  void idle(Wait& wait);
  Peer& peer(int member) { return peers_[size_t(member)]; }

  Membership& membership_;
  const std::shared_ptr<Channel> channel_;
  const int size_, me_;
  const std::shared_ptr<Descriptor> wake_;  // an eventfd, readable from the verdict on; held by who writes to it, too
  const int on_failure_;
  std::vector<Peer> peers_;      // by member
  std::vector<int> active_;      // who takes part in this collective, but for this one
  std::vector<std::byte> ring_;  // pieces of the others' values
};

}  // namespace tandem
