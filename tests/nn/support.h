/// What the tests of nn share: messages of errors, and gradients without a model.
#pragma once
#include "tests/support/op_case.h"

#include <functional>
#include <string>

namespace tandem::test {

/// The message of the Error that f throws; empty where it throws none.
inline std::string error_of(const std::function<void()>& f) {
  try {
    f();
  } catch (const Error& e) {
    return e.what();
  }
  return {};
}

inline bool says(const std::string& text, const std::string& part) { return text.find(part) != std::string::npos; }

/// Makes g the gradient of p, in the memory where p's gradient lies.
inline void set_grad(const Tensor& p, const Tensor& g) {
  p.zero_grad();
  p.backward(g);
}

}  // namespace tandem::test
