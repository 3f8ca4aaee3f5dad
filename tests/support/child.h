/// Running one test case of this binary in a process of its own: for what is read from the environment once.
#pragma once
#include <map>
#include <string>

namespace tandem::test {

/// Runs the (skipped) test case of that name with these variables added to the environment; true if it passed. What it
/// prints goes where this process prints. Throws Error where no process can be started.
bool passes_in_child(const std::string& test_case, const std::map<std::string, std::string>& environment);

}  // namespace tandem::test
