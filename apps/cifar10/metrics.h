/// metrics.jsonl: one JSON object a line, appended and flushed at once, so that a killed run's file ends in a whole
/// line at worst one short.
#pragma once
#include <fstream>
#include <string>

namespace tandem::cifar10 {

class Metrics {
 public:
  /// Appends to the file where `resume`, else begins it anew. Throws IoError where it can't be written.
  Metrics(std::string path, bool resume);
  /// One JSON object, without a newline.
  void write(const std::string& object);

 private:
  std::string path_;
  std::ofstream out_;
};

}  // namespace tandem::cifar10
