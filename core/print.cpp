// Tensors as text, as PyTorch prints them. One format is chosen for all numbers shown: integers with a dot, four
// decimals, or an exponent where they span too much; all are padded to the widest finite one.
#include <tandem/core/copy.h>

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <functional>
#include <ostream>

namespace tandem {
namespace {

constexpr int kDigits = 4, kEdge = 3, kLineWidth = 80;
constexpr int64_t kThreshold = 1000;  // beyond, only the edges of each dimension are shown
constexpr std::string_view kPrefix = "tensor(";

std::string formatted(const char* format, int digits, double v) {
  const int n = std::snprintf(nullptr, 0, format, digits, v);
  std::string s(size_t(n), '\0');
  std::snprintf(s.data(), s.size() + 1, format, digits, v);
  return s;
}
std::string fixed(double v, int digits = kDigits) {
  return std::isnan(v) ? "nan" : formatted("%.*f", digits, v);  // NaN's sign is not shown
}
std::string scientific(double v) { return std::isnan(v) ? "nan" : formatted("%.*e", kDigits, v); }

// How numbers of one tensor are written, before padding.
using Format = std::function<std::string(double)>;

std::string whole(double v) { return fixed(v, 0) + (std::isfinite(v) ? "." : ""); }

Format format_of(const std::vector<double>& values) {
  double smallest = INFINITY, largest = 0;
  bool all_whole = true;
  for (double v : values) {
    if (v == 0 || !std::isfinite(v)) continue;
    smallest = std::min(smallest, std::abs(v));
    largest = std::max(largest, std::abs(v));
    all_whole &= v == std::ceil(v);
  }
  if (largest == 0) return whole;
  const bool wide = largest / smallest > 1000 || largest > 1e8;
  if (wide || (!all_whole && smallest < 1e-4)) return scientific;
  return all_whole ? Format(whole) : [](double v) { return fixed(v); };
}

// The numbers shown, in row-major order, padded to `width`: that of the widest which is finite and not zero. The others
// may be wider, and PyTorch's lines longer than they should be.
struct Elements {
  std::vector<std::string> text;
  size_t width = 1;
};
Elements elements(const Tensor& shown) {
  Elements e;
  auto& [text, width] = e;
  if (is_floating(shown.dtype())) {
    const auto values = shown.to_vector<double>();
    const Format format = format_of(values);
    for (double v : values) {
      text.push_back(format(v));
      if (v != 0 && std::isfinite(v)) width = std::max(width, text.back().size());
    }
  } else {
    for (int64_t v : shown.to_vector<int64_t>()) {
      text.push_back(shown.dtype() == Dtype::boolean ? (v ? "True" : "False") : std::to_string(v));
      width = std::max(width, text.back().size());
    }
  }
  for (auto& s : text) s.insert(0, width > s.size() ? width - s.size() : 0, ' ');
  return e;
}

// x with only its edges left along each long dimension.
Tensor edges_of(Tensor x) {
  for (int d = 0; d < x.dim(); ++d) {
    const int64_t n = x.shape()[d];
    if (n <= 2 * kEdge) continue;
    Dims shape = x.shape(), part = x.shape();
    shape[d] = 2 * kEdge;
    part[d] = kEdge;
    Tensor y = empty(shape, {.dtype = x.dtype(), .device = x.device()});
    const int64_t from = x.impl()->offset, x_step = x.strides()[d], y_step = y.strides()[d];
    copy_into({y.alias(part, y.strides(), 0), 0}, x.alias(part, x.strides(), from));
    copy_into({y.alias(part, y.strides(), kEdge * y_step), 0}, x.alias(part, x.strides(), from + (n - kEdge) * x_step));
    x = y;
  }
  return x;
}

void new_line(std::string& s, int lines, int indent) {
  s.append(1, ',').append(size_t(lines), '\n').append(size_t(indent), ' ');
}

class Writer {
 public:
  Writer(const Tensor& x, bool summarize) : full_(x.shape()) {
    Tensor shown = summarize ? edges_of(x.detach()) : x;
    shape_ = shown.shape();
    shown_ = elements(shown);
  }
  std::string run() { return shape_.empty() ? shown_.text[0] : block(0, int(kPrefix.size())); }

 private:
  bool cut(int d) const { return shape_[d] != full_[d]; }
  int64_t parts(int d) const { return shape_[d] + cut(d); }
  bool is_gap(int d, int64_t i) const { return cut(d) && i == kEdge; }

  std::string block(int d, int indent) {
    std::string s = "[";
    if (d == shape_.size() - 1) {
      const int per_line = std::max(1, (kLineWidth - indent) / int(shown_.width + 2));
      for (int64_t i = 0; i < parts(d); ++i) {
        if (i && i % per_line) s += ", ";
        if (i && i % per_line == 0) new_line(s, 1, indent + 1);
        s += is_gap(d, i) ? " ..." : shown_.text[next_++];
      }
    } else {
      for (int64_t i = 0; i < parts(d); ++i) {
        if (i) new_line(s, shape_.size() - 1 - d, indent + 1);
        s += is_gap(d, i) ? "..." : block(d + 1, indent + 1);
      }
    }
    return s += ']';
  }

  Dims full_, shape_;
  Elements shown_;
  size_t next_ = 0;
};

// "(0, 3)"
std::string tuple(const Dims& d) {
  std::string s = "(";
  for (int i = 0; i < d.size(); ++i) s += message(i ? ", " : "", d[i]);
  return s += ')';
}

std::vector<std::string> suffixes(const Tensor& x) {
  std::vector<std::string> s;
  if (!(x.device() == Device{})) s.push_back(message("device='", x.device(), "'"));
  const bool none = x.numel() == 0;  // then the text does not show what it is of
  if (none && x.dim() != 1) s.push_back(message("size=", tuple(x.shape())));
  const bool obvious = x.dtype() == Dtype::f32 || (!none && (x.dtype() == Dtype::i64 || x.dtype() == Dtype::boolean));
  if (!obvious) s.push_back(message("dtype=", x.dtype()));
  if (!x.is_leaf())
    s.push_back(message("grad_fn=<", x.node()->name, ">"));
  else if (x.requires_grad())
    s.push_back("requires_grad=True");
  return s;
}

}  // namespace

std::string to_string(const Tensor& x) {
  if (!x) return "tensor(undefined)";
  std::string s(kPrefix);
  s += x.numel() == 0 ? "[]" : Writer(x, x.numel() > kThreshold).run();
  const auto newline = s.rfind('\n');
  size_t line = newline == s.npos ? s.size() + 2 : s.size() - newline + 1;
  for (const auto& suffix : suffixes(x)) {
    if (line + suffix.size() + 2 > kLineWidth) {
      new_line(s, 1, int(kPrefix.size()));
      s += suffix;
      line = kPrefix.size() + suffix.size();
    } else {
      s.append(", ").append(suffix);
      line += suffix.size() + 2;
    }
  }
  return s += ')';
}

std::ostream& operator<<(std::ostream& out, const Tensor& x) { return out << to_string(x); }

}  // namespace tandem
