#include "apps/cifar10/metrics.h"

#include <tandem/core/error.h>

#include <filesystem>

namespace tandem::cifar10 {
namespace {

// A run that was killed while it wrote leaves half a line: the next one starts on its own.
bool ends_in_half_a_line(const std::string& path) {
  std::ifstream in(path, std::ios::binary | std::ios::ate);
  if (!in || in.tellg() <= 0) return false;
  in.seekg(-1, std::ios::end);
  return in.get() != '\n';
}

}  // namespace

Metrics::Metrics(std::string path, bool resume) : path_(std::move(path)) {
  bool half = resume && ends_in_half_a_line(path_);
  out_.open(path_, resume ? std::ios::app : std::ios::trunc);
  check<IoError>(out_.good(), path_, ": can't be opened for writing");
  if (half) out_ << '\n';
}

void Metrics::write(const std::string& object) {
  out_ << object << '\n' << std::flush;
  check<IoError>(out_.good(), path_, ": can't be written (is the disk full?)");
}

}  // namespace tandem::cifar10
