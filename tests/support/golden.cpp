#include "tests/support/golden.h"

#include <nlohmann/json.hpp>

namespace tandem::test {

struct GoldenArgs::Json {
  nlohmann::json j;
  const nlohmann::json& at(const char* name) const { return j.at(name); }
};

GoldenArgs::GoldenArgs(const std::string& text) : json_(new Json{nlohmann::json::parse(text)}) {}
GoldenArgs::~GoldenArgs() = default;

bool GoldenArgs::has(const char* n) const { return json_->j.contains(n) && !json_->at(n).is_null(); }

namespace {
template <class T>
T get(const nlohmann::json& j, const char* name) {
  try {
    return j.get<T>();
  } catch (const nlohmann::json::exception& e) {
    throw Error(message("argument ", name, ": ", e.what()));
  }
}
}  // namespace

double GoldenArgs::number(const char* n, double d) const { return has(n) ? get<double>(json_->at(n), n) : d; }
int64_t GoldenArgs::integer(const char* n, int64_t d) const { return has(n) ? get<int64_t>(json_->at(n), n) : d; }
bool GoldenArgs::flag(const char* n, bool d) const { return has(n) ? get<bool>(json_->at(n), n) : d; }
std::string GoldenArgs::text(const char* n, const std::string& d) const {
  return has(n) ? get<std::string>(json_->at(n), n) : d;
}
Dims GoldenArgs::dims(const char* n) const {
  if (!has(n)) return {};
  auto& v = json_->at(n);
  if (v.is_number()) return {get<int64_t>(v, n)};
  return get<std::vector<int64_t>>(v, n);
}
std::array<int64_t, 2> GoldenArgs::pair(const char* n, int64_t d) const {
  Dims v = dims(n);
  if (v.empty()) return {d, d};
  check(v.size() <= 2, "argument ", n, ": a number or a pair, got ", v);
  return {v[0], v.back()};
}

std::map<std::string, GoldenOp>& golden_ops() {
  static std::map<std::string, GoldenOp> ops;
  return ops;
}
bool add_golden_op(const char* name, GoldenOp op) {
  check(golden_ops().emplace(name, op).second, "two adapters for the op ", name);
  return true;
}

}  // namespace tandem::test
