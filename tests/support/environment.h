/// An environment variable for as long as a test needs it.
#pragma once
#include <cstdlib>
#include <string>

namespace tandem::test {

/// Of this process and of those that it starts; not set afterwards.
class Variable {
 public:
  Variable(const char* name, const std::string& value) : name_(name) { ::setenv(name, value.c_str(), 1); }
  ~Variable() { ::unsetenv(name_); }
  Variable(const Variable&) = delete;
  Variable& operator=(const Variable&) = delete;

 private:
  const char* name_;
};

}  // namespace tandem::test
