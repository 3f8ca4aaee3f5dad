/// Names for addresses of code: those of kernels from the symbol tables of the files (most kernels are not exported),
/// lines of sources from their debug information.
#pragma once
#include <string>

namespace simgpu {

/// The function's name without its parameters and the namespaces that all kernels share.
std::string function_name(const void* function);

/// "file.cu:12" of the call that returns there; empty where it isn't known. Starts a process: for a last message.
std::string source_line(const void* return_address);

/// What the loader knows of the file that holds the address.
struct Module {
  std::string path;
  const void* base = nullptr;
};
Module module_of(const void* address);

}  // namespace simgpu
