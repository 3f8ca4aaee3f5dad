#include "apps/cifar10/progress.h"

#include <unistd.h>

#include <cstdio>
#include <iostream>

namespace tandem::cifar10 {
namespace {

template <class... A>
std::string format(const char* f, A... a) {
  char buffer[256];
  std::snprintf(buffer, sizeof buffer, f, a...);
  return buffer;
}

}  // namespace

std::string duration(double s) {
  auto n = static_cast<long long>(s + 0.5);
  if (n < 60) return format("%lld s", n);
  if (n < 3600) return format("%lld:%02lld", n / 60, n % 60);
  return format("%lld:%02lld:%02lld", n / 3600, n / 60 % 60, n % 60);
}

Progress::Progress(int epochs, int64_t images, int64_t done, bool speaks)
    : terminal_(isatty(STDOUT_FILENO) != 0), speaks_(speaks), epochs_(epochs), left_(images - done) {
  restart_clock();
  shown_ = start_;
}

void Progress::restart_clock() {
  start_ = Clock::now();
  paused_ = {};
  since_ = 0;
}

double Progress::seconds() const { return std::chrono::duration<double>(Clock::now() - start_ - paused_).count(); }
double Progress::total() const { return std::chrono::duration<double>(Clock::now() - made_).count(); }
double Progress::rate() const { return since_ ? double(since_) / seconds() : 0; }

void Progress::step(int epoch, int64_t batch, int64_t batches, int64_t images,
                    const std::function<double()>& mean_loss) {
  since_ += images;
  left_ -= images;
  if (!speaks_) return;
  auto now = Clock::now();
  if (now - shown_ < (terminal_ ? std::chrono::milliseconds(200) : std::chrono::milliseconds(10000))) return;
  shown_ = now;
  double r = rate();
  std::string text =
      format("epoch %d/%d  %3d%%  loss %.4f  %.0f images/s  %s left", epoch, epochs_, int(100 * batch / batches),
             mean_loss(), r, duration(r > 0 ? double(left_) / r : 0).c_str());
  if (!terminal_) {
    std::cout << text << std::endl;
    return;
  }
  std::string padded = text;
  if (padded.size() < width_) padded.resize(width_, ' ');
  width_ = text.size();
  std::cout << '\r' << padded << std::flush;
}

void Progress::line(const std::string& text) {
  if (!speaks_) return;
  std::string padded = text;
  if (width_) {
    std::cout << '\r';
    if (padded.size() < width_) padded.resize(width_, ' ');
    width_ = 0;
  }
  std::cout << padded << std::endl;
}

}  // namespace tandem::cifar10
