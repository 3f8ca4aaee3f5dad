#include "tests/support/source_tree.h"
#include "tests/support/test_device.h"

#include <tandem/core/copy.h>
#include <tandem/core/kernel.h>
#include <tandem/ops/relu.h>

#include <doctest/doctest.h>

#include <map>

using namespace tandem;
using namespace tandem::test;

namespace {

constexpr int kCpu = int(DeviceKind::cpu);

// The slot's kernel is another one for a scope.
template <class Slot>
class KernelGuard {
 public:
  KernelGuard(Slot& slot, typename Slot::Function f) : slot_(slot), was_(slot.fn[kCpu]) {
    register_kernel(slot, DeviceKind::cpu, f);
  }
  ~KernelGuard() { slot_.fn[kCpu] = was_; }
  KernelGuard(const KernelGuard&) = delete;
  KernelGuard& operator=(const KernelGuard&) = delete;

 private:
  Slot& slot_;
  void (*was_)();
};

int calls = 0;

// Every `KernelSlot<...> name{"name"};` of the headers: the variable's name and the text that it carries.
std::map<std::string, std::string> declared_slots() {
  std::map<std::string, std::string> slots;
  for (const char* folder : {"core", "ops", "nn", "amp", "data", "parallel"})
    for (auto& file : sources_of(folder)) {
      if (!file.is_header()) continue;
      const std::string start = "inline constinit TANDEM_API";
      for (size_t at = file.text.find(start); at != std::string::npos; at = file.text.find(start, at + 1)) {
        const std::string line = file.text.substr(at, file.text.find(';', at) - at);
        if (line.find("KernelSlot<") == line.npos) continue;
        const auto brace = line.rfind('{'), quote = line.find('"', brace);
        CAPTURE(line);
        REQUIRE(quote != line.npos);
        const auto name_end = line.find_last_not_of(" \n", brace - 1) + 1;
        const auto name_start = line.find_last_of(" \n>", name_end - 1) + 1;
        slots[line.substr(name_start, name_end - name_start)] =
            line.substr(quote + 1, line.find('"', quote + 1) - quote - 1);
      }
    }
  return slots;
}

}  // namespace

TEST_CASE("a slot is one object in the library and in this program") {
  auto& slots = kernel_slots();
  CHECK(std::find(slots.begin(), slots.end(), &relu_forward) != slots.end());
  KernelGuard guard(relu_forward, [](Tensor&, const Tensor&) { ++calls; });
  calls = 0;
  relu(zeros({3}, {.device = cpu()}));  // the library calls what this program registered
  CHECK(calls == 1);
}

TEST_CASE("a slot without a kernel says so, and lists itself once it has one") {
  static KernelSlot<void(int)> slot{"some_op_forward"};
  CHECK_THROWS_WITH_AS(slot(cpu(), 1), "some_op_forward: no kernel for cpu", Error);
  CHECK_THROWS_WITH_AS(slot(cuda(), 1), "some_op_forward: no kernel for cuda", Error);
  auto& slots = kernel_slots();
  CHECK(std::count(slots.begin(), slots.end(), &slot) == 0);
  register_kernel(slot, DeviceKind::cpu, [](int n) { calls = n; });
  register_kernel(slot, DeviceKind::cuda, [](int n) { calls = -n; });
  CHECK(std::count(slots.begin(), slots.end(), &slot) == 1);
  slot(cpu(), 7);
  CHECK(calls == 7);
  slot(cuda(), 7);
  CHECK(calls == -7);
  std::erase(slots, &slot);
}

TEST_CASE("every slot of the headers has a CPU kernel and carries its own name") {
  const auto declared = declared_slots();
  CHECK(declared.size() > 20);
  CHECK(declared.contains("copy_forward"));
  CHECK(declared.contains("relu_backward_data"));
  std::map<std::string, int> filled;
  for (auto* s : kernel_slots()) {
    INFO(s->name);
    CHECK(bool(s->fn[kCpu]));
    CHECK(declared.contains(s->name));
    ++filled[s->name];
  }
  for (auto& [variable, name] : declared) {
    INFO(variable);
    CHECK(name == variable);
    CHECK(filled[name] == 1);
  }
}

TEST_CASE("every slot has a kernel for the device under test") {
  std::string without;
  for (auto* s : kernel_slots())
    if (!s->fn[int(test_device().kind)]) without += std::string(without.empty() ? "" : ", ") + s->name;
  CHECK(without == "");
}
