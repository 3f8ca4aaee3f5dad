// Backends and how the CUDA one comes: a library of its own, opened when a CUDA device is first asked for, so that
// programs on the CPU neither need CUDA's libraries nor wait for them.
#include <tandem/core/backend.h>
#include <tandem/core/version.h>

#include <dlfcn.h>

#include <atomic>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <mutex>

namespace tandem {
namespace {

std::atomic<Backend*> backends[kDeviceKinds];

// The file beside this library, or the one the environment names.
std::filesystem::path cuda_library() {
  if (const char* named = std::getenv("TANDEM_CUDA_LIBRARY")) return named;
  Dl_info here{};
  if (!dladdr(reinterpret_cast<void*>(&cuda_library), &here)) return {};
  return std::filesystem::path(here.dli_fname).parent_path() / message("libtandem_cuda.so.", TANDEM_VERSION_MAJOR);
}

// Opens the CUDA library once; its code registers itself as it is loaded. What kept it from that, else "".
const std::string& load_cuda() {
  static const std::string reason = []() -> std::string {
    const std::filesystem::path file = cuda_library();
    std::error_code ignored;
    if (!std::filesystem::exists(file, ignored))
      return std::getenv("TANDEM_CUDA_LIBRARY")
                 ? message("TANDEM_CUDA_LIBRARY names ", file.string(), ", which does not exist")
                 : "this library was built without CUDA (-DTANDEM_CUDA=ON builds it)";
    if (dlopen(file.c_str(), RTLD_NOW | RTLD_LOCAL)) return {};
    return message("the CUDA library does not load: ", dlerror());
  }();
  return reason;
}

}  // namespace

void register_backend(DeviceKind kind, Backend& b) { backends[int(kind)] = &b; }

Backend* find_backend(DeviceKind kind) {
  if (Backend* b = backends[int(kind)]) return b;
  if (kind == DeviceKind::cuda) load_cuda();
  return backends[int(kind)];
}

Backend& backend(Device d) {
  Backend* b = find_backend(d.kind);
  check<DeviceError>(b, d, ": ", d.is_cpu() ? "a CPU has no streams" : load_cuda());
  int n = b->count();
  check<DeviceError>(d.index < n, d, ": there are ", n, " devices of this kind", n ? "" : b->why_none());
  return *b;
}

Stream& current_stream(Device d) {
  Backend& b = backend(d);  // throws before an index that is too large is used
  if (auto s = context().stream[d.index]) return *s;
  return b.default_stream(d.index);
}

void copy_bytes(void* to, Device to_device, const void* from, Device from_device, size_t bytes) {
  if (!bytes) return;
  if (to_device.is_cpu() && from_device.is_cpu())
    std::memcpy(to, from, bytes);
  else
    backend(to_device.is_cpu() ? from_device : to_device).copy_bytes(to, to_device, from, from_device, bytes);
}

void zero_bytes(void* data, Device d, size_t bytes) {
  if (!bytes) return;
  if (d.is_cpu())
    std::memset(data, 0, bytes);
  else
    backend(d).zero_bytes(data, d, bytes);
}

}  // namespace tandem
