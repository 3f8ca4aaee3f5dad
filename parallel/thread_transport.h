/// Not installed. The transport between threads of one process: each takes what it needs straight out of the others'
/// memory. Nobody writes what is another's.
#pragma once
#include <tandem/parallel/membership.h>
#include <tandem/parallel/transport.h>

#include <array>
#include <condition_variable>

namespace tandem {

/// Where the members of a channel meet.
struct ThreadHub {
  static constexpr uint64_t kWithdrawn = uint64_t{1} << 63;
  static constexpr size_t kSmall = 4096;  // bytes that are left at the meeting place instead of being waited for
  struct Offer {
    Header header;
    const Part* parts = nullptr;
    const std::byte* data = nullptr;
    alignas(64) std::array<std::byte, kSmall> small;
  };
  struct alignas(64) Slot {
    std::atomic<uint64_t> come{0}, reduced{0}, done{0};  // the last meeting for which each holds
    std::array<Offer, 2> offers;                         // of even and odd meetings: nobody is ahead of another by two
  };
  /// From one member to another. Transfer s is posted at 3s, claimed by the receiver, who then reads, at 3s + 1, and
  /// taken at 3s + 2. A sender that gives up before it is claimed sets the bit, and then it never is.
  struct Mail {
    std::atomic<uint64_t> state{0};
    Header header;
    std::span<const std::byte> data;
    std::atomic<uint64_t> wanted{0};  // the transfer for which the receiver has come
    Header wanted_header;

    bool waits_for_receiver() const {
      const uint64_t s = state.load();
      return s > 0 && !(s & kWithdrawn) && s % 3 == 0;
    }
    bool waits_for_sender() const { return 3 * wanted.load() > (state.load() & ~kWithdrawn); }
  };
  explicit ThreadHub(size_t members) : slots(members), mails(members * members) {}
  Mail& mail(size_t from, size_t to) { return mails[from * slots.size() + to]; }

  /// How often members have come to meetings. Meeting m begins when all have come m times; whoever gives up before that
  /// sets the bit, and then it never begins. So nobody reads what belongs to one who has left.
  std::atomic<uint64_t> arrivals{0};

  std::vector<Slot> slots;
  std::vector<Mail> mails;
  std::mutex mutex;
  std::condition_variable changed;
  std::atomic<int> sleepers{0};
};

class ThreadTransport final : public Transport {
 public:
  ThreadTransport(Membership& membership, const Channel& channel, std::shared_ptr<ThreadHub> hub);
  ~ThreadTransport() override;
  void exchange(const Header& header, std::span<const Part> parts, Wait& wait) override;
  void all_reduce(const Header& header, std::span<std::byte> data, const Reduction& reduction, Wait& wait) override;
  void transfer(const Header& header, int peer, std::span<const std::byte> send, std::span<std::byte> recv,
                Wait& wait) override;

 private:
  using Mark = std::atomic<uint64_t> ThreadHub::Slot::*;
  ThreadHub::Offer& offer(size_t member) { return hub_->slots[member].offers[meeting_ & 1]; }
  void meet(Wait& wait);  // all have arrived, and mean the same
  void send(const Header& header, size_t to, std::span<const std::byte> data, Wait& wait);
  void recv(const Header& header, size_t from, std::span<std::byte> data, Wait& wait);
  bool withdraw(uint64_t begins);    // false: too late, the meeting has begun
  void pass(Mark mark, Wait& wait);  // all have come as far as that
  void announce(std::atomic<uint64_t>& mark, uint64_t value);
  void wake();
  template <class Ready, class Check>
  void sleep_until(Ready ready, Check check, Wait& wait);
  /// What a member asks for that is waited for in vain, since it waits for this one to do something else.
  struct Elsewhere {
    size_t member = 0;
    const Header* asks_for = nullptr;
  };
  Elsewhere in_transfer() const;
  Elsewhere in_collective(size_t other) const;
  template <class Ready, class Look>
  void await(Ready ready, Look elsewhere, Wait& wait);

  Membership& membership_;
  const size_t me_, size_;
  const std::shared_ptr<ThreadHub> hub_;
  const int on_failure_;
  uint64_t meeting_ = 0;
};

}  // namespace tandem
