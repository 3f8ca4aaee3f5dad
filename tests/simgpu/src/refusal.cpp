#include "refusal.h"

#include <cstdarg>
#include <cstdio>
#include <cstdlib>

namespace simgpu {
namespace {

thread_local std::string last;

}  // namespace

void remember_refusal(const char* format, ...) {
  static const bool verbose = [] {
    const char* v = std::getenv("SIMGPU_VERBOSE");
    return v && *v && *v != '0';
  }();
  char text[1024];
  va_list arguments;
  va_start(arguments, format);
  std::vsnprintf(text, sizeof text, format, arguments);
  va_end(arguments);
  last = text;
  if (verbose) std::fprintf(stderr, "simgpu: refused: %s\n", text);
}

const std::string& last_refusal() { return last; }

}  // namespace simgpu
