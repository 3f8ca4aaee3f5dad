#include <tandem/core/build_info.h>
#include <tandem/core/device.h>
#include <tandem/core/error.h>
#include <tandem/core/parallel_for.h>
#include <tandem/core/version.h>

#include <doctest/doctest.h>

#include <map>
#include <sstream>

using namespace tandem;

namespace {

std::map<std::string, std::string> lines() {
  std::map<std::string, std::string> m;
  std::istringstream in(build_info());
  for (std::string line; std::getline(in, line);) {
    auto colon = line.find(": ");
    REQUIRE(colon != line.npos);
    CHECK(m.emplace(line.substr(0, colon), line.substr(colon + 2)).second);
  }
  return m;
}

}  // namespace

TEST_CASE("build_info says what the library is made of and what it found") {
  auto m = lines();
  CHECK(m.at("tandem") == message(TANDEM_VERSION_MAJOR, '.', TANDEM_VERSION_MINOR, '.', TANDEM_VERSION_PATCH));
  CHECK_FALSE(m.at("compiler").empty());
  CHECK_FALSE(m.at("compiled for").empty());
  set_num_threads(3);
  CHECK(lines().at("threads").starts_with("3 on "));
  set_num_threads(1);
  set_cpu_devices(2);
  CHECK(lines().at("devices").starts_with(message(device_count(DeviceKind::cpu), " cpu, ")));
#if defined(__x86_64__) && defined(__GNUC__)
  // The tests run, so this CPU has what they were compiled for.
  std::istringstream sets(m.at("compiled for"));
  for (std::string set; sets >> set;)
    if (set != "baseline") CHECK((" " + m.at("this cpu") + " ").find(" " + set + " ") != std::string::npos);
#endif
}

TEST_CASE("other folders add lines of their own, each name once") {
  CHECK(detail::add_build_info("some library", [] { return std::string("1.2"); }));
  CHECK_FALSE(detail::add_build_info("some library", [] { return std::string("3"); }));
  CHECK(lines().at("some library") == "1.2");
}
