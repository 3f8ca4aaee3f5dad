#include "apps/tandem-run/signals.h"

#include <tandem/core/error.h>

#include <signal.h>
#include <sys/signalfd.h>

#include <cerrno>
#include <cstring>

namespace tandem::launcher {

Signals::Signals() {
  sigset_t set;
  ::sigemptyset(&set);
  for (int number : {SIGINT, SIGTERM, SIGHUP, SIGQUIT, SIGTSTP}) {
    struct sigaction now {};
    ::sigaction(number, nullptr, &now);
    if (now.sa_handler != SIG_IGN) ::sigaddset(&set, number);
  }
  ::sigprocmask(SIG_BLOCK, &set, nullptr);
  event_ = Descriptor(::signalfd(-1, &set, SFD_CLOEXEC | SFD_NONBLOCK));
  check(bool(event_), "no signalfd could be made: ", std::strerror(errno));
}

int Signals::next() {
  signalfd_siginfo info{};
  return ::read(event_.get(), &info, sizeof info) == sizeof info ? int(info.ssi_signo) : 0;
}

}  // namespace tandem::launcher
