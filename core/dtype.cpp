#include <tandem/core/dtype.h>

namespace tandem {
namespace {
struct Names {
  Dtype t;
  std::string_view name, torch;
};
constexpr Names kNames[] = {
    {Dtype::f32, "f32", "float32"},    {Dtype::f64, "f64", "float64"},   {Dtype::f16, "f16", "float16"},
    {Dtype::bf16, "bf16", "bfloat16"}, {Dtype::i64, "i64", "int64"},     {Dtype::i32, "i32", "int32"},
    {Dtype::u8, "u8", "uint8"},        {Dtype::boolean, "bool", "bool"}, {Dtype::f32, "float", "float"},
    {Dtype::f64, "double", "double"},  {Dtype::f16, "half", "half"},     {Dtype::i64, "long", "long"},
    {Dtype::i32, "int", "int"}};
int rank(Dtype t) {
  switch (t) {
    case Dtype::boolean: return 0;
    case Dtype::u8: return 1;
    case Dtype::i32: return 2;
    case Dtype::i64: return 3;
    case Dtype::f16:
    case Dtype::bf16: return 4;
    case Dtype::f32: return 5;
    case Dtype::f64: return 6;
  }
  return 0;
}
}  // namespace

std::string to_string(Dtype t) {
  for (auto& n : kNames)
    if (n.t == t) return std::string(n.name);
  return "?";
}

Dtype parse_dtype(std::string_view text) {
  for (auto& n : kNames)
    if (n.name == text || n.torch == text) return n.t;
  throw DtypeError(message("\"", text, "\" is no dtype: f32, f64, f16, bf16, i64, i32, u8 or bool"));
}

Dtype promote(Dtype a, Dtype b) {
  if (a == b) return a;
  if (rank(a) == rank(b)) return Dtype::f32;  // f16 with bf16
  return rank(a) > rank(b) ? a : b;
}

}  // namespace tandem
