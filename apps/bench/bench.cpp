#include "apps/bench/bench.h"

#include <tandem/core/build_info.h>
#include <tandem/core/error.h>

#include <sys/resource.h>
#include <unistd.h>

#include <cstdio>
#include <cstdlib>
#include <memory>

namespace tandem::bench {

std::string run_self(const std::vector<std::string>& args) {
  char path[4096];
  ssize_t n = readlink("/proc/self/exe", path, sizeof path - 1);
  check(n > 0, "can't find this program's own file");
  std::string command = message('\'', std::string_view(path, size_t(n)), '\'');
  for (auto& a : args) command += message(" '", a, '\'');
  std::unique_ptr<FILE, int (*)(FILE*)> p(popen(command.c_str(), "r"), pclose);
  check(p != nullptr, "can't start ", command);
  std::string out;
  char buffer[4096];
  while (size_t k = std::fread(buffer, 1, sizeof buffer, p.get())) out.append(buffer, k);
  int status = pclose(p.release());
  check(status == 0, command, " failed");
  return out;
}

double load_average() {
  double load[1] = {0};
  getloadavg(load, 1);
  return load[0];
}

double peak_memory_mb() {
  rusage r{};
  getrusage(RUSAGE_SELF, &r);
  return double(r.ru_maxrss) / 1024;
}

std::string machine() { return build_info() + message("load average ", load_average(), '\n'); }

}  // namespace tandem::bench
