// A module's state by name, and back. Keys and their order are PyTorch's.
#include <tandem/core/copy.h>
#include <tandem/nn/module.h>

#include <unordered_map>

namespace tandem::nn {

namespace {

constexpr std::string_view kWrapperPrefix = "module.";

std::string list_of(const char* what, const std::vector<std::string>& keys) {
  if (keys.empty()) return {};
  std::string s = message("\n  ", what, ":");
  for (size_t i = 0; i < keys.size(); ++i) s += message(i ? ", " : " ", keys[i]);
  return s;
}

}  // namespace

std::string to_string(const LoadReport& r) {
  return list_of("missing", r.missing) + list_of("unexpected", r.unexpected) + list_of("misshapen", r.misshapen);
}

LoadReport Module::load_state_dict(const NamedTensors& entries, LoadOptions options) {
  struct Place {
    Tensor to;
    const Tensor* from = nullptr;
  };
  NamedTensors own = state_dict();
  std::unordered_map<std::string, Place> places;
  for (auto& [name, t] : own) places[name].to = t;

  LoadReport report;
  for (auto& [key, t] : entries) {
    auto at = places.find(key);
    if (at == places.end() && key.starts_with(kWrapperPrefix)) at = places.find(key.substr(kWrapperPrefix.size()));
    if (at == places.end() || at->second.from || !t) {
      report.unexpected.push_back(key);
      continue;
    }
    at->second.from = &t;
    if (!(t.shape() == at->second.to.shape()))
      report.misshapen.push_back(message(key, " ", t.shape(), ", not ", at->second.to.shape()));
  }
  for (auto& [name, t] : own)
    if (!places[name].from) report.missing.push_back(name);
  check(!options.strict || report.clean(), "[load_state_dict] this state does not fit ", type_name(), ":", report);
  if (options.dry_run) return report;

  for (auto& [name, t] : own) {
    Place& p = places[name];
    if (!p.from || !(p.from->shape() == p.to.shape())) continue;
    copy_into({p.to, 0}, *p.from);
    p.to.storage()->bump();
  }
  return report;
}

}  // namespace tandem::nn
