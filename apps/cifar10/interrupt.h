/// Ctrl-C (and SIGTERM) as a flag that the training loop looks at after each step; a second one ends the program.
#pragma once

namespace tandem::cifar10 {

class Interrupt {
 public:
  Interrupt();
  ~Interrupt();
  Interrupt(const Interrupt&) = delete;
  Interrupt& operator=(const Interrupt&) = delete;
  static bool requested();
};

}  // namespace tandem::cifar10
