/// Sizes of a tensor (Dims), and where its elements lie (strides in elements; Layout names the two dense orders).
#pragma once
#include <tandem/core/error.h>

#include <array>
#include <cstdint>
#include <initializer_list>
#include <span>
#include <vector>

namespace tandem {

inline constexpr int kMaxDims = 8;

/// Up to kMaxDims numbers: a shape, or strides. Throws ShapeError beyond that.
class Dims {
 public:
  Dims() = default;
  Dims(std::initializer_list<int64_t> l) : Dims(std::span<const int64_t>(l.begin(), l.size())) {}
  Dims(const std::vector<int64_t>& v) : Dims(std::span<const int64_t>(v)) {}
  explicit Dims(std::span<const int64_t> v) {
    for (int64_t x : v) push_back(x);
  }
  int size() const { return n_; }
  bool empty() const { return n_ == 0; }
  int64_t operator[](int i) const { return d_[i]; }
  int64_t& operator[](int i) { return d_[i]; }
  int64_t back() const { return d_[n_ - 1]; }
  const int64_t* begin() const { return d_.data(); }
  const int64_t* end() const { return d_.data() + n_; }
  void push_back(int64_t v) {
    if (n_ == kMaxDims) throw ShapeError(message("a tensor has at most ", kMaxDims, " dimensions"));
    d_[n_++] = v;
  }
  void insert(int at, int64_t v) {
    push_back(v);
    for (int i = n_ - 1; i > at; --i) d_[i] = d_[i - 1];
    d_[at] = v;
  }
  void erase(int at) {
    for (int i = at; i + 1 < n_; ++i) d_[i] = d_[i + 1];
    --n_;
  }
  /// The product; 1 for a scalar's empty shape.
  int64_t numel() const {
    int64_t k = 1;
    for (int i = 0; i < n_; ++i) k *= d_[i];
    return k;
  }
  bool operator==(const Dims& o) const {
    if (n_ != o.n_) return false;
    for (int i = 0; i < n_; ++i)
      if (d_[i] != o.d_[i]) return false;
    return true;
  }
  std::vector<int64_t> vec() const { return {begin(), end()}; }

 private:
  int n_ = 0;
  std::array<int64_t, kMaxDims> d_{};
};

/// "[2,3]"
TANDEM_API std::string to_string(const Dims&);

/// row_major: the last index runs fastest. channels_last: 4-D only, logical [n,c,h,w] stored as n,h,w,c.
enum class Layout : uint8_t { row_major, channels_last };
TANDEM_API std::string to_string(Layout);

/// Dense strides of a shape. channels_last of anything but 4-D is row_major.
TANDEM_API Dims dense_strides(const Dims& shape, Layout);

/// Whether these strides are that dense layout (dimensions of size 1 fit any; so does an empty tensor).
TANDEM_API bool is_dense(const Dims& shape, const Dims& strides, Layout);

/// -1 is the last dimension. Throws ShapeError naming the op where `dim` is out of range.
TANDEM_API int wrap_dim(const char* op, int64_t dim, int n_dims);

/// The shape two operands broadcast to, by PyTorch's (NumPy's) rule. Throws ShapeError naming the op and both.
TANDEM_API Dims broadcast_shapes(const char* op, const Dims& a, const Dims& b);

}  // namespace tandem
