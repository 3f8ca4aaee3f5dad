/// Not installed. What an exception says, for those who have to pass it on as text.
#pragma once
#include <exception>
#include <string>

namespace tandem {

inline std::string error_text(const std::exception_ptr& error) {
  try {
    std::rethrow_exception(error);
  } catch (const std::exception& e) {
    return e.what();
  } catch (...) {
    return "an exception that says nothing";
  }
}

}  // namespace tandem
