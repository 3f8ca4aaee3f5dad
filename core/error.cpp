#include <tandem/core/error.h>

#include <cstdio>

namespace tandem::detail {

void append(std::string& to, double value) {
  char buffer[32];
  int n = std::snprintf(buffer, sizeof buffer, "%.6g", value);
  to.append(buffer, size_t(n));
}

}  // namespace tandem::detail
