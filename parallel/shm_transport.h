/// Not installed. ShmTransport: collectives between processes of one machine (threads too), by shared memory. What
/// others need passes through windows that only their owner writes, so that a member that was stopped, named and then
/// goes on can't write into anybody's memory.
///
/// Small data travels with the header: everyone reads everyone's. An all_reduce of more goes window by window: each
/// member copies what others reduce into its window (step 1), reduces its own share of all windows in the order of
/// the members into its window and its memory (step 2), and copies the others' shares out of theirs. There are two
/// windows, so that the next is filled while the others are still at step 2. In an exchange each pair goes piece by
/// piece, counted by both sides; a member sends its piece k to all before it takes piece k of any, which can't come to
/// a standstill: the members that are at the lowest k of all never wait for one another's leave to send.
#pragma once
#include <tandem/parallel/address_book.h>
#include <tandem/parallel/membership.h>
#include <tandem/parallel/shared_memory.h>
#include <tandem/parallel/shm_region.h>
#include <tandem/parallel/transport.h>

#include <memory>
#include <optional>
#include <vector>

namespace tandem {

class TANDEM_API ShmTransport final : public Transport {
 public:
  /// Collective among the members, all on this machine and of this user. Throws CommError.
  ShmTransport(Membership& membership, std::shared_ptr<Channel> channel, AddressBook& book);

  void exchange(const Header& header, std::span<const Part> parts, Wait& wait) override;
  void all_reduce(const Header& header, std::span<std::byte> data, const Reduction& reduction, Wait& wait) override;
  void transfer(const Header& header, int peer, std::span<const std::byte> send, std::span<std::byte> recv,
                Wait& wait) override;

 private:
  struct Stream;
  // As much of an all_reduce as a window holds.
  struct Window {
    std::span<std::byte> data;  // the caller's
    size_t item;
    unsigned parity;
  };
  // Tells the others at the end, also where the constructor throws.
  struct Closing {
    ShmControl& control;
    explicit Closing(ShmControl& c) : control(c) {}
    ~Closing();
  };
  void begin(const Header& header, Wait& wait);
  void reduce_small(std::span<std::byte> data, const Reduction& reduction);
  void fill(const Window& w);
  void reduce(const Window& w, const Reduction& reduction);
  void collect(const Window& w);
  void tell_step(Wait& wait);
  void await_step(Wait& wait);
  void run(std::span<const Stream> streams, bool alike, Wait& wait);
  void ring(Wait& wait);
  template <class Ready>
  void await(int member, Wait& wait, Ready ready);
  bool dead(int member) const { return regions_[size_t(member)].control().life.holder_died(); }
  void look_after_members();
  const Header* elsewhere(int member) const;

  unsigned parity() const { return collectives_ & 1; }
  const ShmRegion& mine() const { return regions_[size_t(me_)]; }
  /// This one's place among another's others, and the other way round.
  static size_t place(int of, int among) { return size_t(of < among ? of : of - 1); }
  // A member's share of a window.
  size_t begin_of(const Window& w, int member) const {
    return share_begin(w.data.size() / w.item, size_, member) * w.item;
  }
  size_t bytes_of(const Window& w, int member) const { return begin_of(w, member + 1) - begin_of(w, member); }
  size_t small_slot(bool alike) const;
  size_t window_slot(bool alike) const;

  Membership& membership_;
  const std::shared_ptr<Channel> channel_;
  const int size_, me_;
  SharedMemory own_;
  std::vector<SharedMemory> others_;
  std::vector<ShmRegion> regions_;  // by member
  std::optional<LifeLine> life_;
  std::optional<Closing> closing_;
  int spins_ = 0;
  uint32_t collectives_ = 0, steps_ = 0;
  std::vector<uint32_t> transfers_;  // with each member
  int partner_ = -1;                 // of the transfer under way
  std::vector<Source> sources_;
};

}  // namespace tandem
