#include <tandem/nn/module.h>
#include <tandem/nn/type_name.h>

#include <ostream>

namespace tandem::nn {
namespace {

// 1234567 as "1,234,567".
std::string grouped(int64_t n) {
  std::string s = std::to_string(n);
  for (auto i = int64_t(s.size()) - 3; i > 0; i -= 3) s.insert(size_t(i), 1, ',');
  return s;
}

void print(std::string& out, const Module& m, const std::string& indent) {
  const std::string count = message("  # ", grouped(m.num_parameters()));
  out += m.type_name() + '(' + m.extra_repr();
  if (m.children().empty()) {
    out += ')' + count + '\n';
    return;
  }
  out += count + '\n';
  for (auto& [name, child] : m.children()) {
    out += indent + "  (" + name + "): ";
    print(out, *child, indent + "  ");
  }
  out += indent + ")\n";
}

}  // namespace

std::string Module::type_name() const { return detail::type_name(typeid(*this)); }

std::string to_string(const Module& m) {
  std::string s;
  print(s, m, "");
  return s + grouped(m.num_parameters()) + " parameters";
}

std::ostream& operator<<(std::ostream& out, const Module& m) { return out << to_string(m); }

}  // namespace tandem::nn
