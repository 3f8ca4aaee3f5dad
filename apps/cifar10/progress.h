/// The progress line of a training run: rewritten in place on a terminal, a plain line every few seconds elsewhere.
#pragma once
#include <chrono>
#include <cstdint>
#include <functional>
#include <string>

namespace tandem::cifar10 {

class Progress {
 public:
  /// `images`: of the whole run; `done`: of them already behind a resumed one. Only one that `speaks` prints anything.
  Progress(int epochs, int64_t images, int64_t done, bool speaks);
  /// After a step. `mean_loss` is called where a line is due, and not otherwise: it waits for the device.
  void step(int epoch, int64_t batch, int64_t batches, int64_t images, const std::function<double()>& mean_loss);
  /// A line that stays.
  void line(const std::string& text);
  /// Images per second since the last call of `restart_clock`.
  double rate() const;
  void restart_clock();
  /// Seconds since this was made, pauses included.
  double total() const;
  /// Testing and saving are not counted in images/s: time spent in them is taken off the clock.
  class Pause {
   public:
    explicit Pause(Progress& p) : p_(p), start_(Clock::now()) {}
    ~Pause() { p_.paused_ += Clock::now() - start_; }

   private:
    Progress& p_;
    std::chrono::steady_clock::time_point start_;
  };

 private:
  using Clock = std::chrono::steady_clock;
  double seconds() const;

  const bool terminal_, speaks_;
  const int epochs_;
  int64_t left_, since_ = 0;
  const Clock::time_point made_ = Clock::now();
  Clock::time_point start_, shown_;
  Clock::duration paused_{};
  size_t width_ = 0;  // of the line now standing on the terminal
};

/// "1:02:03", "4:05", "12 s"
std::string duration(double seconds);

}  // namespace tandem::cifar10
