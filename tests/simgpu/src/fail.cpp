#include <unistd.h>

#include <cstdarg>
#include <cstdio>
#include <string>

#include "block.h"
#include "executor.h"
#include "fail.h"
#include "operation.h"
#include "running.h"
#include "settings.h"
#include "stream.h"
#include "symbols.h"

namespace simgpu {
namespace {

[[noreturn]] void end(const char* format, va_list arguments, const void* return_address) {
  static bool failing = false;
  if (failing) _exit(kFailed);  // in finding the words
  failing = true;
  char what[2048];
  std::vsnprintf(what, sizeof what, format, arguments);
  std::string where = position();
  if (where.empty() && running.item && on_executor()) where = "in '" + running.item->operation.name + "'";
  if (return_address)
    if (const std::string line = source_line(return_address); !line.empty())
      where += (where.empty() ? "" : ", ") + line;
  if (!where.empty()) where += "; ";
  std::fprintf(stderr, "simgpu: error: %s (%sseed %lu)\n", what, where.c_str(), settings().seed);
  std::fflush(nullptr);
  _exit(kFailed);
}

}  // namespace

void fail(const char* format, ...) {
  va_list arguments;
  va_start(arguments, format);
  end(format, arguments, nullptr);
}

void fail_at(const void* return_address, const char* format, ...) {
  va_list arguments;
  va_start(arguments, format);
  end(format, arguments, return_address);
}

}  // namespace simgpu
