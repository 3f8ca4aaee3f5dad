/// What the tests of nn share: messages of errors, and gradients without a model.
#pragma once
#include "tests/support/op_case.h"
#include "tests/support/text.h"

#include <functional>
#include <string>

namespace tandem::test {

/// Makes g the gradient of p, in the memory where p's gradient lies.
inline void set_grad(const Tensor& p, const Tensor& g) {
  p.zero_grad();
  p.backward(g);
}

}  // namespace tandem::test
