/// Not installed. LifeMark and LifeLine: how processes of one machine see that another has ended. A robust mutex in
/// shared memory is held by a thread for as long as its owner lives; the kernel marks it as soon as the process dies,
/// before it frees memory and closes connections (which comes 70 ms per GB later).
#pragma once
#include <tandem/core/export.h>

#include <pthread.h>

#include <semaphore>
#include <thread>

namespace tandem {

/// In shared memory.
class TANDEM_API LifeMark {
 public:
  /// Whether its holder has died without letting go. One look at the lock's word and no attempt to take it: after
  /// glibc 2.36's trylock an unrecoverable mutex stays locked.
  bool holder_died() const;

 private:
  friend class LifeLine;
  pthread_mutex_t mutex_ = PTHREAD_MUTEX_INITIALIZER;
};

/// Holds a mark, from the constructor's return to the destructor.
class TANDEM_API LifeLine {
 public:
  explicit LifeLine(LifeMark& mark);
  ~LifeLine();
  LifeLine(const LifeLine&) = delete;
  LifeLine& operator=(const LifeLine&) = delete;

 private:
  LifeMark& mark_;
  std::binary_semaphore held_{0}, let_go_{0};
  std::thread holder_;  // not the caller's, which may end sooner
};

}  // namespace tandem
