/// Not installed. Door: where others wait, across processes, for what its owner does next. Its owner alone writes to
/// it: those who wait read it, and say in memory of their own that they sleep there.
///
/// Nothing is missed: the owner stores what it has done, rings, and then looks for sleepers; a sleeper takes the count
/// of rings, says that it sleeps, looks for what it waits for, and only then sleeps, unless the count has moved. All
/// of these are in one order (seq_cst), so one of the two sees the other.
#pragma once
#include <tandem/core/export.h>

#include <atomic>
#include <chrono>
#include <cstdint>

namespace tandem {

/// Lets the core's other thread, or the other side, go on for an instant.
inline void spin_pause() {
#if defined(__x86_64__) || defined(__i386__)
  __builtin_ia32_pause();
#elif defined(__aarch64__)
  asm volatile("yield");
#endif
}

/// All zero is a new one.
class TANDEM_API Door {
 public:
  /// The owner's: counts a ring. Whoever sleeps here has then to be woken.
  void ring() { rings_.fetch_add(1); }
  /// Anybody's.
  void wake() const;
  uint32_t rings() const { return rings_.load(); }
  /// Sleeps unless there has been a ring since `seen`; returns at the next one, when woken, or after a while.
  void sleep(uint32_t seen, std::chrono::microseconds at_most) const;

 private:
  std::atomic<uint32_t> rings_{0};
};
static_assert(std::atomic<uint32_t>::is_always_lock_free && sizeof(Door) == 4);

/// Where a member says at whose door it sleeps; in its own memory, looked at by those who ring.
class Sleeper {
 public:
  bool sleeps_at(int member) const { return at_.load() == uint32_t(member) + 1; }
  void lie_down(int member) { at_.store(uint32_t(member) + 1); }
  void get_up() { at_.store(0); }

 private:
  std::atomic<uint32_t> at_{0};  // member plus 1; 0 while awake
};

/// Waits at `member`'s door until ready() is true: looks `spins` times, then sleeps. Calls check() every few
/// milliseconds, which may throw.
template <class Ready, class Check>
void wait_at(const Door& door, int member, Sleeper& self, int spins, Ready ready, Check check) {
  constexpr std::chrono::milliseconds kNap{4};
  for (int i = 0; i < spins; ++i) {
    if (ready()) return;
    spin_pause();
  }
  struct Rest {
    Sleeper& self;
    ~Rest() { self.get_up(); }
  } rest{self};
  for (;;) {
    const uint32_t seen = door.rings();
    self.lie_down(member);
    if (ready()) return;
    door.sleep(seen, kNap);
    if (ready()) return;
    check();
  }
}

}  // namespace tandem
