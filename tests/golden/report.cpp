#include "tests/golden/report.h"

#include <ostream>
#include <utility>

namespace tandem::golden {

void Report::fail(const std::string& label, const std::string& what) {
  ++failures_;
  out_ << label << ": " << what << std::endl;
}

std::string Report::summary() const {
  auto counted = [](int n, const std::string& noun) { return std::to_string(n) + " " + noun + (n == 1 ? "" : "s"); };
  std::string s = counted(counts_[op_case], "op case") + ", " + counted(counts_[training_run], "training run") + ", " +
                  counted(counts_[sequence], "sequence") + ": ";
  s += failures_ == 0 ? "all pass" : counted(failures_, "failure");
  if (not_run_.empty()) return s;
  s += " (" + std::to_string(not_run_.size()) + " not run:";
  for (const char* before = " "; auto& name : not_run_) s += std::exchange(before, ", ") + name;
  return s + ")";
}

}  // namespace tandem::golden
