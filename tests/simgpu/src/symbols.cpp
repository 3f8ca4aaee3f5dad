#include "symbols.h"

#include <cxxabi.h>
#include <dlfcn.h>
#include <elf.h>
#include <link.h>

#include <cstdio>
#include <cstdlib>
#include <fstream>
#include <map>
#include <memory>
#include <vector>

namespace simgpu {
namespace {

using Names = std::map<uintptr_t, std::string>;  // by the offset of the function in the file's memory

template <class T>
std::vector<T> read(std::ifstream& file, uint64_t offset, size_t count) {
  std::vector<T> v(count);
  file.seekg(std::streamoff(offset));
  file.read(reinterpret_cast<char*>(v.data()), std::streamsize(count * sizeof(T)));
  if (!file) v.clear();
  return v;
}

Names read_names(const std::string& path) {
  Names names;
  std::ifstream file(path, std::ios::binary);
  const auto header = read<ElfW(Ehdr)>(file, 0, 1);
  if (header.empty()) return names;
  const auto sections = read<ElfW(Shdr)>(file, header[0].e_shoff, header[0].e_shnum);
  for (const auto& s : sections) {
    if (s.sh_type != SHT_SYMTAB) continue;
    const auto symbols = read<ElfW(Sym)>(file, s.sh_offset, s.sh_size / sizeof(ElfW(Sym)));
    const auto& strings = sections.at(s.sh_link);
    const auto text = read<char>(file, strings.sh_offset, strings.sh_size);
    for (const auto& y : symbols)
      if (ELF64_ST_TYPE(y.st_info) == STT_FUNC && y.st_value && y.st_name < text.size())
        names.emplace(y.st_value, &text[y.st_name]);
  }
  return names;
}

std::string mangled_name(const void* function) {
  static auto& files = *new std::map<std::string, Names>;
  const Module m = module_of(function);
  auto [file, is_new] = files.try_emplace(m.path);
  if (is_new) file->second = read_names(m.path);
  const auto address = reinterpret_cast<uintptr_t>(function);
  // Shared objects and position-independent programs count from where they were loaded.
  for (const uintptr_t offset : {address - reinterpret_cast<uintptr_t>(m.base), address})
    if (const auto found = file->second.find(offset); found != file->second.end()) return found->second;
  Dl_info info{};
  return dladdr(function, &info) && info.dli_saddr == function && info.dli_sname ? info.dli_sname : "";
}

void erase_all(std::string& text, const std::string& part) {
  for (size_t at; (at = text.find(part)) != std::string::npos;) text.erase(at, part.size());
}

// Cuts the parameters off: from the first parenthesis that stands in no template argument.
void cut_parameters(std::string& name) {
  int depth = 0;
  for (size_t i = 0; i < name.size(); ++i) {
    if (name[i] == '<') ++depth;
    if (name[i] == '>') --depth;
    if (name[i] == '(' && depth == 0) return name.resize(i);
  }
}

}  // namespace

Module module_of(const void* address) {
  Dl_info info{};
  if (!dladdr(address, &info) || !info.dli_fname) return {};
  return {info.dli_fname, info.dli_fbase};
}

std::string function_name(const void* function) {
  const std::string mangled = mangled_name(function);
  if (mangled.empty()) return "(without a name)";
  int status = 0;
  const std::unique_ptr<char, decltype(&std::free)> text(
      abi::__cxa_demangle(mangled.c_str(), nullptr, nullptr, &status), std::free);
  std::string name = text ? text.get() : mangled;
  for (const char* part : {"(anonymous namespace)::", "tandem::cuda_impl::", "tandem::"}) erase_all(name, part);
  if (name.starts_with("void ")) name.erase(0, 5);
  cut_parameters(name);
  return name;
}

std::string source_line(const void* return_address) {
  const auto* call = static_cast<const char*>(return_address) - 1;
  const Module m = module_of(call);
  if (m.path.empty()) return {};
  char command[1024];
  std::snprintf(command, sizeof command, "exec timeout 10 addr2line -e '%s' 0x%lx 2>/dev/null", m.path.c_str(),
                static_cast<unsigned long>(call - static_cast<const char*>(m.base)));
  FILE* pipe = popen(command, "r");
  if (!pipe) return {};
  char line[1024] = "";
  const bool found = std::fgets(line, sizeof line, pipe) != nullptr;
  pclose(pipe);
  std::string text = found ? line : "";
  if (text.empty() || text[0] == '?') return {};
  text = text.substr(text.rfind('/') + 1);
  return text.substr(0, text.find_first_of(" \n"));
}

}  // namespace simgpu
