#include <tandem/core/error.h>
#include <tandem/parallel/life_line.h>

#include <linux/futex.h>

#include <csignal>
#include <cstdint>
#include <cstring>

namespace tandem {

bool LifeMark::holder_died() const {
  // glibc's: the futex word is the first of the mutex.
  return __atomic_load_n(&mutex_.__data.__lock, __ATOMIC_ACQUIRE) & int(FUTEX_OWNER_DIED);
}

LifeLine::LifeLine(LifeMark& mark) : mark_(mark) {
  pthread_mutexattr_t kind;
  pthread_mutexattr_init(&kind);
  pthread_mutexattr_setpshared(&kind, PTHREAD_PROCESS_SHARED);
  pthread_mutexattr_setrobust(&kind, PTHREAD_MUTEX_ROBUST);
  const int error = pthread_mutex_init(&mark_.mutex_, &kind);
  pthread_mutexattr_destroy(&kind);
  check<CommError>(error == 0, "[shared memory] a robust mutex: ", std::strerror(error));

  // The program's signal handlers are none of the thread's business.
  sigset_t all, before;
  sigfillset(&all);
  pthread_sigmask(SIG_SETMASK, &all, &before);
  try {
    holder_ = std::thread([this] {
      pthread_mutex_lock(&mark_.mutex_);
      held_.release();
      let_go_.acquire();
      pthread_mutex_unlock(&mark_.mutex_);
    });
  } catch (...) {
    pthread_sigmask(SIG_SETMASK, &before, nullptr);
    throw;
  }
  pthread_sigmask(SIG_SETMASK, &before, nullptr);
  held_.acquire();
}

LifeLine::~LifeLine() {
  let_go_.release();
  holder_.join();
  pthread_mutex_destroy(&mark_.mutex_);
}

}  // namespace tandem
