#include "apps/cifar10/interrupt.h"

#include <csignal>

namespace tandem::cifar10 {
namespace {

volatile std::sig_atomic_t asked = 0;

void on_signal(int signal) {
  asked = 1;
  std::signal(signal, SIG_DFL);
}

}  // namespace

Interrupt::Interrupt() {
  asked = 0;
  std::signal(SIGINT, on_signal);
  std::signal(SIGTERM, on_signal);
}
Interrupt::~Interrupt() {
  std::signal(SIGINT, SIG_DFL);
  std::signal(SIGTERM, SIG_DFL);
}
bool Interrupt::requested() { return asked != 0; }

}  // namespace tandem::cifar10
