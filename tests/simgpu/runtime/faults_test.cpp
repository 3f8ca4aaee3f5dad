// Every fault that the simulator is to find, in the modes that are to find it, with several seeds.
#include <doctest/doctest.h>

#include <array>
#include <cstdio>
#include <string>

#include <sys/wait.h>

namespace {

struct Outcome {
  int code;
  std::string output;
};

Outcome commit(const std::string& program, const std::string& fault, int seed) {
  const std::string command = "SIMGPU_SEED=" + std::to_string(seed) + " exec timeout 60 '" TANDEM_PROGRAM_DIR "/" +
                              program + "' '" + fault + "' 2>&1";
  FILE* pipe = popen(command.c_str(), "r");
  REQUIRE(pipe);
  std::string output;
  std::array<char, 4096> part;
  while (const size_t n = fread(part.data(), 1, part.size(), pipe)) output.append(part.data(), n);
  const int status = pclose(pipe);
  return {WIFEXITED(status) ? WEXITSTATUS(status) : -1, output};
}

enum class Mode { both, checked_only, fast_only };

struct Expected {
  const char* fault;
  Mode mode;
  std::array<const char*, 2> says;  // parts of the message; in the checked mode also the line, where there is one
  const char* line = nullptr;
};

constexpr Expected kExpected[] = {
    {"leave before barrier",
     Mode::both,
     {"barrier divergence: 28 of 128 threads have ended", "leave_before_barrier_kernel"}},
    {"different barriers", Mode::both, {"barrier divergence: thread", "faults.cu:"}},
    {"incomplete shuffle", Mode::both, {"never completes: mask ffffffff, arrived 000fffff", "faults.cu:"}},
    {"shuffle from outside", Mode::both, {"not in the mask 0000ffff", "faults.cu:"}},
    {"overrun dynamic", Mode::fast_only, {"dynamic shared memory was written", "past the 128"}},
    {"overrun dynamic",
     Mode::checked_only,
     {"out of bounds: 4 bytes at offset 128 of the 128 bytes of dynamic"},
     "faults.cu:"},
    {"overrun static", Mode::checked_only, {"out of bounds: index 32 of an array of type 'float [32]'", "faults.cu:"}},
    {"recursion", Mode::both, {"stack of 64 KiB overflowed", "recurse_kernel"}},
    {"last block without fence", Mode::both, {"passed no __threadfence", "faults.cu:"}},
    {"wrong last block", Mode::both, {"takes itself for the last", "faults.cu:"}},
    {"graph with freed memory", Mode::both, {"a graph is launched whose node", "has been freed"}},
    {"write source in flight", Mode::both, {"host code writes pinned memory"}},
    {"read destination in flight", Mode::both, {"host code uses pinned memory"}},
    {"two copies into pinned", Mode::both, {"missing wait: a copy into pinned memory"}},
    {"memory of another device", Mode::both, {"launched on device 0 with a pointer to memory of device 1"}},
    {"read by host", Mode::both, {"host code dereferenced device memory", "offset 400"}},
    {"free twice", Mode::both, {"freed already"}},
    {"copy of pageable memory", Mode::both, {"pageable host memory"}},
    {"copy too much", Mode::both, {"which lie in no live allocation"}},
    {"pass host pointer", Mode::both, {"is launched with the pointer", "in no live allocation"}},
    {"default stream", Mode::both, {"the default stream is used"}},
    {"destroyed stream", Mode::both, {"is no stream, or one that was destroyed"}},
    {"call from host function", Mode::both, {"a host function of a stream calls CUDA"}},
    {"overrun found at free", Mode::fast_only, {"past the end of allocation", "was written"}},

    {"missing barrier",
     Mode::checked_only,
     {"data race on shared memory", "missing_barrier_kernel, block (0,0,0), thread ("},
     "faults.cu:"},
    {"missing warp barrier",
     Mode::checked_only,
     {"data race on shared memory", "missing_warp_barrier_kernel"},
     "faults.cu:"},
    {"uninitialised shared",
     Mode::checked_only,
     {"shared memory that its block has not written by then", "uninitialised_shared_kernel"},
     "faults.cu:"},
    {"block race", Mode::checked_only, {"data race on device memory", "block_race_kernel"}, "faults.cu:"},
    {"half atomic", Mode::checked_only, {"data race on device memory", "half_atomic_kernel"}, "faults.cu:"},
    {"one too many", Mode::checked_only, {"out of bounds: it", "offset 512 of allocation #"}, "faults.cu:"},
    {"misaligned", Mode::checked_only, {"misaligned access of 16 bytes"}, "faults.cu:"},
    {"without wait",
     Mode::checked_only,
     {"missing wait: 'samples::affine_kernel'", "on another stream, with no event between"}},
    {"wait for an earlier event", Mode::checked_only, {"missing wait: 'samples::affine_kernel'"}, "pointwise.cu:"},
    {"overwrite what is read", Mode::checked_only, {"missing wait: '"}},
    {"free what is used", Mode::checked_only, {"allocation #"}},  // freed too early, or used too late
    {"use before allocation", Mode::checked_only, {"error: "}},
    {"use after free", Mode::checked_only, {"use after free: it reads"}, "faults.cu:"},
    {"race in graph", Mode::checked_only, {"missing wait: 'samples::affine_kernel'"}, "pointwise.cu:"},
    {"hidden memory of another device",
     Mode::checked_only,
     {"wrong device: the kernel runs on device 0"},
     "faults.cu:"},
    {"read what was never written",
     Mode::checked_only,
     {"uninitialised memory: 'samples::affine_kernel' reads 4 bytes"},
     "pointwise.cu:"},
    {"fetch what was never written", Mode::checked_only, {"uninitialised memory: 'copy to the host' reads"}},
    {"write to host", Mode::checked_only, {"the kernel writes 4 bytes of the host's memory"}, "faults.cu:"},
    {"read from host", Mode::checked_only, {"the kernel reads 4 bytes of the host's memory"}, "faults.cu:"},
};

void check_faults(const std::string& program, Mode other, bool lines) {
  for (const Expected& e : kExpected) {
    if (e.mode == other) continue;
    const bool about_order = std::string(e.says[0]).starts_with("missing wait");
    for (int seed = 0; seed < (about_order ? 12 : 4); ++seed) {
      const Outcome o = commit(program, e.fault, seed);
      CAPTURE(e.fault);
      CAPTURE(o.output);
      CHECK(o.code == 97);
      CHECK(o.output.find("simgpu: error: ") != std::string::npos);
      CHECK(o.output.find("seed " + std::to_string(seed)) != std::string::npos);
      for (const char* part : e.says)
        if (part) CHECK(o.output.find(part) != std::string::npos);
      if (lines && e.line) CHECK(o.output.find(e.line) != std::string::npos);
    }
  }
}

}  // namespace

TEST_CASE("faults that any run finds") { check_faults("simgpu-faults", Mode::checked_only, false); }
TEST_CASE("faults that the checked mode finds") { check_faults("simgpu-faults-checked", Mode::fast_only, true); }
TEST_CASE("a program without a fault ends well") {
  for (const char* program : {"simgpu-faults", "simgpu-faults-checked"}) {
    const Outcome o = commit(program, "no fault", 1);
    CHECK(o.code == 0);
    CHECK(o.output.empty());
  }
}
