/// What tandem-golden was asked for, what it found, and how it says so.
#pragma once
#include <tandem/core/device.h>
#include <tandem/core/dtype.h>

#include <iosfwd>
#include <set>
#include <string>
#include <vector>

namespace tandem::golden {

struct Options {
  std::vector<std::string> folders = {};
  std::vector<Dtype> dtypes{Dtype::f32, Dtype::f64};
  std::string filter = {};  // only what has this text in its label
  Device device = cpu();    // where the ops run
  bool list = false;        // labels only, nothing is run

  bool wants(const std::string& label) const { return label.find(filter) != label.npos; }
};

class Report {
 public:
  enum Kind { op_case, training_run, sequence, kinds };

  /// `out` gets a line per failure.
  explicit Report(std::ostream& out) : out_(out) {}

  /// Something was run (or, with --list, would have been).
  void count(Kind k) { ++counts_[k]; }
  void fail(const std::string& label, const std::string& what);
  /// A key whose feature the library does not have yet.
  void not_run(const std::string& name) { not_run_.insert(name); }

  int failures() const { return failures_; }
  bool ran_nothing() const { return counts_[op_case] + counts_[training_run] + counts_[sequence] == 0; }
  /// "611 op cases, 14 training runs, 4 sequences: all pass (1 not run: grad_scaler)"
  std::string summary() const;

 private:
  std::ostream& out_;
  int counts_[kinds] = {};
  int failures_ = 0;
  std::set<std::string> not_run_;
};

}  // namespace tandem::golden
