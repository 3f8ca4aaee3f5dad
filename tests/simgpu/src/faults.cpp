#include "faults.h"

#include <simgpu/simgpu.h>

#include <atomic>
#include <cstdint>
#include <mutex>

#include "api.h"
#include "settings.h"
#include "shadow.h"

namespace simgpu {
namespace {

class Countdown {
 public:
  void start(uint64_t n) { left_ = n; }
  /// True when it reaches the end: once.
  bool next() { return left_ > 0 && --left_ == 0; }

 private:
  uint64_t left_ = 0;
};

Countdown allocations, refusals, kernels;
std::atomic<double> link_delay{0};

}  // namespace

bool fails_allocation() { return allocations.next(); }
bool refuses_launch() { return refusals.next(); }
bool fails_kernel() { return kernels.next(); }
double link_delay_ms() { return link_delay; }

}  // namespace simgpu

using namespace simgpu;

extern "C" {

void simgpu_fail_allocation(uint64_t n) {
  std::lock_guard lock(runtime_mutex());
  allocations.start(n);
}
void simgpu_refuse_launch(uint64_t n) {
  std::lock_guard lock(runtime_mutex());
  refusals.start(n);
}
void simgpu_fail_kernel(uint64_t n) {
  std::lock_guard lock(runtime_mutex());
  kernels.start(n);
}
void simgpu_set_sticky_error(int error) { set_sticky_error(cudaError_t(error)); }
void simgpu_delay_links_ms(double ms) { link_delay = ms; }

int simgpu_is_checked() { return checked; }
uint64_t simgpu_seed() { return settings().seed; }

}  // extern "C"
