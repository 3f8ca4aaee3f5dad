#include <tandem/core/build_info.h>
#include <tandem/core/device.h>
#include <tandem/core/parallel_for.h>
#include <tandem/core/version.h>

#include <map>
#include <string_view>
#include <thread>

namespace tandem {
namespace {

std::map<std::string, std::string (*)()>& added() {  // by name: the order of registration is nobody's choice
  static auto* m = new std::map<std::string, std::string (*)()>;
  return *m;
}

std::string compiler() {
#if defined(__clang__)
  std::string s = message("clang ", __clang_version__);
#elif defined(__GNUC__)
  std::string s = message("g++ ", __VERSION__);
#else
  std::string s = "unknown";
#endif
#ifndef __OPTIMIZE__
  s += ", not optimised";
#endif
#if defined(__SANITIZE_ADDRESS__)
  s += ", address sanitizer";
#endif
#if defined(__SANITIZE_THREAD__)
  s += ", thread sanitizer";
#endif
  return s;
}

void append_word(std::string& list, std::string_view word) { (list += list.empty() ? "" : " ") += word; }

// Of those whose presence makes a difference to kernels.
std::string compiled_for() {
  std::string s;
#ifdef __SSE4_2__
  append_word(s, "sse4.2");
#endif
#ifdef __AVX2__
  append_word(s, "avx2");
#endif
#ifdef __FMA__
  append_word(s, "fma");
#endif
#ifdef __F16C__
  append_word(s, "f16c");
#endif
#ifdef __AVX512F__
  append_word(s, "avx512f");
#endif
#ifdef __AVX512BW__
  append_word(s, "avx512bw");
#endif
#ifdef __AVX512VNNI__
  append_word(s, "avx512vnni");
#endif
#ifdef __AVX512BF16__
  append_word(s, "avx512bf16");
#endif
#ifdef __ARM_NEON
  append_word(s, "neon");
#endif
  return s.empty() ? "baseline" : s;
}

std::string found() {
  std::string s;
#if defined(__x86_64__) && defined(__GNUC__)
  __builtin_cpu_init();
  if (__builtin_cpu_supports("sse4.2")) append_word(s, "sse4.2");
  if (__builtin_cpu_supports("avx2")) append_word(s, "avx2");
  if (__builtin_cpu_supports("fma")) append_word(s, "fma");
  if (__builtin_cpu_supports("f16c")) append_word(s, "f16c");
  if (__builtin_cpu_supports("avx512f")) append_word(s, "avx512f");
  if (__builtin_cpu_supports("avx512bw")) append_word(s, "avx512bw");
  if (__builtin_cpu_supports("avx512vnni")) append_word(s, "avx512vnni");
  if (__builtin_cpu_supports("avx512bf16")) append_word(s, "avx512bf16");
#elif defined(__aarch64__)
  append_word(s, "neon");
#endif
  return s.empty() ? "baseline" : s;
}

std::string threads() {
#ifdef _OPENMP
  constexpr const char* kHow = "OpenMP";
#else
  constexpr const char* kHow = "std::thread";
#endif
  return message(num_threads(), " on ", std::thread::hardware_concurrency(), " cores, by ", kHow);
}

std::string devices() {
  const int cpus = device_count(DeviceKind::cpu), cudas = device_count(DeviceKind::cuda);
  return message(cpus, " cpu, ", cudas, " cuda");
}

}  // namespace

bool detail::add_build_info(const char* name, std::string (*value)()) { return added().emplace(name, value).second; }

std::string build_info() {
  std::string s;
  auto line = [&](std::string_view name, const std::string& value) { s += message(name, ": ", value, '\n'); };
  line("tandem", message(TANDEM_VERSION_MAJOR, '.', TANDEM_VERSION_MINOR, '.', TANDEM_VERSION_PATCH));
  line("compiler", compiler());
  line("compiled for", compiled_for());
  line("this cpu", found());
  line("threads", threads());
  for (auto& [name, value] : added()) line(name, value());
  line("devices", devices());
  return s;
}

}  // namespace tandem
