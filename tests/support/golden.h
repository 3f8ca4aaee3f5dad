/// How an op makes itself known to tandem-golden: one TANDEM_GOLDEN line in its test file, by the name the reference
/// has for it. There is no central table.
#pragma once
#include <tandem/core/kernel.h>
#include <tandem/core/tensor.h>

#include <map>
#include <memory>
#include <optional>
#include <string>

namespace tandem::test {

/// The keyword arguments of a case. A missing argument is its default; one of the wrong kind throws Error.
class GoldenArgs {
 public:
  explicit GoldenArgs(const std::string& json_object);
  ~GoldenArgs();
  bool has(const char* name) const;
  double number(const char* name, double or_else) const;
  int64_t integer(const char* name, int64_t or_else) const;
  bool flag(const char* name, bool or_else) const;
  std::string text(const char* name, const std::string& or_else) const;
  /// A list, or a number as a list of one; empty where missing.
  Dims dims(const char* name) const;
  /// [h, w]; a single number stands for both.
  std::array<int64_t, 2> pair(const char* name, int64_t or_else) const;

 private:
  struct Json;
  std::unique_ptr<Json> json_;
};

struct GoldenCall {
  std::vector<Tensor> in;
  GoldenArgs args;
  std::vector<Tensor> extra;  // batch_norm's running statistics, updated in place
};
using GoldenOp = Tensor (*)(GoldenCall&);

std::map<std::string, GoldenOp>& golden_ops();
bool add_golden_op(const char* name, GoldenOp op);

}  // namespace tandem::test

/// TANDEM_GOLDEN("relu", [](GoldenCall& c) { return relu(c.in[0]); });
#define TANDEM_GOLDEN(name, ...) \
  [[maybe_unused]] static const bool TANDEM_CONCAT(golden_, __LINE__) = ::tandem::test::add_golden_op(name, __VA_ARGS__)
