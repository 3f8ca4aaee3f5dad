#include <tandem/parallel/door.h>

#include <linux/futex.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <climits>
#include <ctime>

namespace tandem {
namespace {

// Not the private kind: the word is known by its place in the memory, wherever each process has mapped it. Both calls
// only read it.
void futex(const std::atomic<uint32_t>& word, int operation, uint32_t value, const timespec* time) {
  ::syscall(SYS_futex, &word, operation, value, time, nullptr, 0);
}

}  // namespace

void Door::wake() const { futex(rings_, FUTEX_WAKE, INT_MAX, nullptr); }

void Door::sleep(uint32_t seen, std::chrono::microseconds at_most) const {
  const timespec time{time_t(at_most.count() / 1'000'000), long(at_most.count() % 1'000'000) * 1000};
  futex(rings_, FUTEX_WAIT, seen, &time);
}

}  // namespace tandem
