#include "tests/golden/op_cases.h"
#include "tests/golden/compare.h"
#include "tests/support/golden.h"

#include <tandem/core/copy.h>

#include <nlohmann/json.hpp>

#include <iostream>

namespace tandem::golden {
namespace {

using nlohmann::json;

// Expected values were computed in double from f32 inputs and rounded to f32; our f64 results, rounded likewise, may be
// off by a unit of that, and by cancellation in sums of magnitude 1. The upstream gradients were rounded only when they
// were written: sums of them are uncertain by that much of the terms, and so of the largest value.
Tolerance tolerance_of(Dtype t, bool gradient) {
  if (t == Dtype::f32) return {.absolute = 1e-5, .relative = 1e-4};
  if (gradient) return {.absolute = 1e-12, .relative = 1e-6, .of_largest = 1e-6};
  return {.absolute = 1e-12, .relative = 2e-7};
}

class Case {
 public:
  Case(test::GoldenOp op, const SafetensorsFile& file, const json& spec, Dtype dtype)
      : op_(op), file_(file), spec_(spec), dtype_(dtype) {}

  /// Calls fail(what) for each part that is wrong.
  template <class F>
  void run(F&& fail) const {
    const json &inputs = spec_.at("inputs"), &outputs = spec_.at("outputs"), &in_grads = spec_.at("in_grads");
    if (outputs.size() != 1) return fail(message(outputs.size(), " outputs, where an adapter gives one"));

    test::GoldenCall call{{}, test::GoldenArgs(spec_.value("args", json::object()).dump()), {}};
    for (size_t i = 0; i < inputs.size(); ++i) {
      call.in.push_back(tensor(inputs[i]));
      if (has(in_grads, i)) call.in.back().set_requires_grad();
    }
    const json extra = spec_.value("extra", json::array());
    const size_t before = extra.size() / 2;
    for (size_t i = 0; i < before; ++i) call.extra.push_back(tensor(extra[i]));

    std::vector<Tensor> in = call.in;  // the adapter may move its own away
    Tensor y = op_(call);
    compare("output", y, outputs[0], fail);
    for (size_t i = 0; i < before; ++i) compare(message("extra ", i), call.extra[i], extra.at(before + i), fail);

    const json& out_grads = spec_.at("out_grads");
    if (!has(out_grads, 0)) return;
    if (y.requires_grad()) y.backward(tensor(out_grads[0]));
    for (size_t i = 0; i < inputs.size(); ++i) {
      if (!has(in_grads, i)) continue;
      std::string what = message("gradient of input ", i);
      if (Tensor g = in[i].grad())
        compare(what, g, in_grads[i], fail, true);
      else
        fail(what + ": there is none");
    }
  }

 private:
  // An op without gradients may have empty lists of them.
  static bool has(const json& names, size_t i) { return i < names.size() && !names[i].is_null(); }
  Tensor stored(const json& name) const {
    Tensor t = file_.find(name.get<std::string>());
    check(t.defined(), "the file has no tensor ", name.get<std::string>());
    return t;
  }
  // A copy of its own: an op may write over what it is given.
  Tensor tensor(const json& name) const {
    Tensor t = stored(name);
    return copy_of(t, {.dtype = is_floating(t.dtype()) ? dtype_ : t.dtype()});
  }
  template <class F>
  void compare(const std::string& what, Tensor got, const json& name, F&& fail, bool gradient = false) const {
    if (is_floating(got.dtype())) {
      if (got.dtype() != dtype_) fail(message(what, ": is ", got.dtype()));
      got = copy_of(got, {.dtype = Dtype::f32});
    }
    std::string d = difference(got, stored(name), tolerance_of(dtype_, gradient));
    if (!d.empty()) fail(what + ": " + d);
  }

  test::GoldenOp op_;
  const SafetensorsFile& file_;
  const json& spec_;
  Dtype dtype_;
};

}  // namespace

void run_op_cases(const std::string& name, const SafetensorsFile& file, const Options& options, Report& report) {
  const json cases = json::parse(file.metadata.at("cases"));
  check(cases.is_array(), "`cases` is not a list");
  for (size_t i = 0; i < cases.size(); ++i) {
    const json& spec = cases[i];
    const std::string op_name = spec.at("op").get<std::string>(), label = message(name, " ", i, " ", op_name);
    if (!options.wants(label)) continue;
    report.count(Report::op_case);
    if (options.list) {
      std::cout << label << ' ' << spec.value("args", json::object()).dump() << '\n';
      continue;
    }
    auto op = test::golden_ops().find(op_name);
    if (op == test::golden_ops().end()) {
      report.fail(label, "no adapter for this op");
      continue;
    }
    const std::string note = spec.contains("note") ? " (" + spec["note"].get<std::string>() + ")" : "";
    for (Dtype t : options.dtypes) {
      auto fail = [&](const std::string& what) { report.fail(message(label, " ", t, note), what); };
      try {
        Case(op->second, file, spec, t).run(fail);
      } catch (const std::exception& e) {
        fail(e.what());
      }
    }
  }
}

}  // namespace tandem::golden
