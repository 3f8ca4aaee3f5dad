/// Planted faults: a (skipped) test case that the simulator should end, run in a process of its own.
#pragma once
#include <doctest/doctest.h>
#include <tests/support/program.h>
#include <tests/support/text.h>

#include <string>

namespace simgpu_test {

/// The simulator ends the case's process with its code, and its one line of error says this.
inline void check_fault(const std::string& test_case, const std::string& message,
                        const std::string& program = "tests_simgpu_libraries") {
  const auto child = tandem::test::run_program(program, {"--test-case=" + test_case, "--no-skip=true"});
  INFO(child.output);
  CHECK(child.code == 97);
  CHECK(tandem::test::says(child.output, "simgpu: error: "));
  CHECK(tandem::test::says(child.output, message));
}

}  // namespace simgpu_test
