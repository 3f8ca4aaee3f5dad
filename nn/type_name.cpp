#include <tandem/nn/type_name.h>

#include <cxxabi.h>

#include <cstdlib>
#include <memory>

namespace tandem::nn {

std::string detail::type_name(const std::type_info& type) {
  int status = 0;
  std::unique_ptr<char, decltype(&std::free)> text(abi::__cxa_demangle(type.name(), nullptr, nullptr, &status),
                                                   &std::free);
  std::string name = status == 0 ? text.get() : type.name();
  const size_t scope = name.rfind("::", name.find('<'));  // colons of template arguments are none of the class's
  return scope == std::string::npos ? name : name.substr(scope + 2);
}

}  // namespace tandem::nn
