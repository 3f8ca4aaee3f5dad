/// Tensor: a shared handle to storage, offset, shape, strides, dtype and, if it takes part, autograd state.
///
/// Copies of a Tensor are the same tensor. Views share storage. Only one kernel (`copy`) understands arbitrary strides;
/// every other one takes dense tensors, row-major or channels-last, and the ops see to that. Host access (to_vector,
/// item, printing) is in row-major order whatever the layout.
#pragma once
#include <tandem/core/context.h>
#include <tandem/core/dtype.h>
#include <tandem/core/ref.h>
#include <tandem/core/shape.h>
#include <tandem/core/storage.h>

#include <iosfwd>
#include <memory>
#include <span>
#include <vector>

namespace tandem {

struct Node;
struct Leaf;
struct Twins;
class Tensor;

/// How a new tensor is made: `zeros({2, 3}, {.dtype = Dtype::f64})`.
struct TensorOptions {
  Dtype dtype = Dtype::f32;
  Device device = current_device();
  Layout layout = Layout::row_major;
  bool requires_grad = false;
};

struct TANDEM_API TensorImpl {
  std::atomic<int> refs{0};
  Dtype dtype{};
  Ref<Storage> storage;
  int64_t offset = 0;  // in elements
  Dims shape, strides;
  Ref<Node> node;                // the op that produced it, or the Leaf of a tensor that requires grad
  std::unique_ptr<Twins> twins;  // what stands for it in replicas' ops
  TensorImpl();
  ~TensorImpl();
  static void destroy(TensorImpl* p) { delete p; }
};

/// Called with a gradient; an undefined result leaves it as it is, else the result replaces it.
using GradHook = std::function<Tensor(const Tensor&)>;

class TANDEM_API Tensor {
 public:
  /// No tensor at all: what asks it for anything but defined() and is_same() throws Error.
  Tensor() = default;
  Tensor(Ref<Storage> storage, const Dims& shape, const Dims& strides, Dtype dtype, int64_t offset = 0);

  /// Whether there is a tensor at all.
  bool defined() const { return bool(p_); }
  explicit operator bool() const { return defined(); }

  const Dims& shape() const { return it().shape; }
  const Dims& strides() const { return it().strides; }
  /// -1 is the last dimension. Throws ShapeError out of range.
  int64_t size(int dim) const { return it().shape[wrap_dim("size", dim, this->dim())]; }
  int64_t stride(int dim) const { return it().strides[wrap_dim("stride", dim, this->dim())]; }
  int dim() const { return it().shape.size(); }
  int64_t numel() const { return it().shape.numel(); }
  Dtype dtype() const { return it().dtype; }
  Device device() const { return it().storage->device; }

  /// Whether the elements are dense in this layout (sizes of 1 fit any).
  bool is_contiguous(Layout l = Layout::row_major) const { return is_dense(it().shape, it().strides, l); }
  bool is_dense_in_any_layout() const {
    return is_contiguous() || (dim() == 4 && is_contiguous(Layout::channels_last));
  }
  /// row_major where both fit.
  Layout layout() const {
    return dim() == 4 && !is_contiguous() && is_contiguous(Layout::channels_last) ? Layout::channels_last
                                                                                  : Layout::row_major;
  }
  /// What a new tensor must be to pair with this one element by element.
  TensorOptions options() const { return {.dtype = dtype(), .device = device(), .layout = layout()}; }

  /// The elements, in row-major order. T must be the dtype's type and the tensor on a CPU and dense in `l`; a layout
  /// other than row_major must be asked for by name. Throws DtypeError, DeviceError, ShapeError.
  template <class T>
  T* data(Layout l = Layout::row_major) const {
    require_host_access(dtype_of<T>, l);
    return ptr<T>();
  }
  template <class T>
  std::span<T> span() const {
    return {data<T>(), size_t(numel())};
  }
  /// Unchecked, for kernels.
  template <class T>
  T* ptr() const {
    return reinterpret_cast<T*>(it().storage->data) + it().offset;
  }
  void* raw() const { return it().storage->data + it().offset * int64_t(size_of(it().dtype)); }

  /// The values converted to T, in row-major order, from any device and layout.
  template <class T = float>
  std::vector<T> to_vector() const {
    std::vector<T> v(static_cast<size_t>(numel()));
    if constexpr (std::is_same_v<T, bool>) {
      std::vector<uint8_t> bytes(v.size());
      copy_out(bytes.data(), Dtype::boolean);
      for (size_t i = 0; i < v.size(); ++i) v[i] = bytes[i] != 0;
    } else {
      copy_out(v.data(), dtype_of<T>);
    }
    return v;
  }
  /// The one value. Throws ShapeError where there is not exactly one.
  template <class T = float>
  T item() const {
    T v{};
    require_one_element();
    copy_out(&v, dtype_of<T>);
    return v;
  }

  // Autograd.
  bool requires_grad() const { return bool(it().node); }
  /// Makes this a leaf whose gradient is kept, or stops it being one. Throws Error for a result of a recorded op or a
  /// tensor that is not floating.
  Tensor& set_requires_grad(bool on = true);
  bool is_leaf() const;
  /// The gradient, sharing memory with where backward accumulates it; undefined if there is none (also after
  /// zero_grad). The next backward writes into the same memory.
  Tensor grad() const;
  /// Marks the gradient as absent without touching its memory.
  void zero_grad() const;
  /// The same values outside the graph, sharing memory.
  Tensor detach() const;
  /// Gradients of this tensor with respect to the leaves it came from, added to their `grad()`.
  /// `grad`: what to start from; undefined means 1, for a one-element tensor. Throws Error where nothing requires grad,
  /// where the graph was freed, or where a saved tensor was changed in place.
  void backward(const Tensor& grad = {}, bool retain_graph = false) const;
  /// Calls `hook` with this tensor's gradient in each backward (for a leaf: with the sum of this backward's
  /// contributions, before they are added). Returns a number for remove_hook.
  int register_hook(GradHook hook) const;
  void remove_hook(int id) const;

  // Views and copies; differentiable, defined with the ops (ops/view.h, ops/cast.h).
  Tensor view(const Dims& shape) const;  // the same as reshape
  Tensor reshape(const Dims& shape) const;
  Tensor flatten(int start_dim = 0, int end_dim = -1) const;
  Tensor transpose(int dim0, int dim1) const;
  Tensor t() const;
  Tensor permute(const Dims& dims) const;
  Tensor unsqueeze(int dim) const;
  Tensor squeeze(int dim) const;
  Tensor narrow(int dim, int64_t start, int64_t length) const;
  Tensor select(int dim, int64_t index) const;
  Tensor slice(int dim, int64_t start, int64_t end, int64_t step = 1) const;
  Tensor expand(const Dims& shape) const;
  /// This tensor where it is dense in that layout, else a copy that is.
  Tensor contiguous(Layout l = Layout::row_major) const;
  Tensor to(Dtype dtype) const;
  Tensor to(Device device) const;
  /// A copy with memory of its own, in this tensor's layout.
  Tensor clone() const;

  // In place (ops/inplace.h). Each counts as a change for tensors saved for backward.
  Tensor& add_(const Tensor& other, double alpha = 1);
  Tensor& add_(double value);
  Tensor& mul_(const Tensor& other);
  Tensor& mul_(double value);
  Tensor& copy_(const Tensor& source);
  Tensor& fill_(double value);
  Tensor& zero_();

  // Reductions (ops/reduce.h).
  Tensor sum() const;
  Tensor mean() const;

  // For op writers.
  TensorImpl* impl() const { return p_.get(); }
  const Ref<Storage>& storage() const { return it().storage; }
  const Ref<Node>& node() const { return it().node; }
  bool is_same(const Tensor& o) const { return p_ == o.p_; }
  /// A new handle to the same memory with another shape, without autograd.
  Tensor alias(const Dims& shape, const Dims& strides, int64_t offset) const;
  /// Whether nobody else can see this tensor's memory, so that an op that took it by value may write over it.
  bool unique() const;
  /// This tensor's Leaf, or null.
  Leaf* leaf() const;

 private:
  TensorImpl& it() const {
    if (!p_) [[unlikely]]
      throw_undefined();
    return *p_;
  }
  [[noreturn]] static void throw_undefined();
  void require_host_access(Dtype want, Layout l) const;
  void require_one_element() const;
  void copy_out(void* to, Dtype dtype) const;
  Ref<TensorImpl> p_;
};

/// Contents undefined.
TANDEM_API Tensor empty(const Dims& shape, TensorOptions = {});
TANDEM_API Tensor zeros(const Dims& shape, TensorOptions = {});
TANDEM_API Tensor ones(const Dims& shape, TensorOptions = {});
TANDEM_API Tensor full(const Dims& shape, double value, TensorOptions = {});
/// start, start+step, ... below end; i64 unless told otherwise (torch.arange).
TANDEM_API Tensor arange(double start, double end, double step = 1, TensorOptions = {.dtype = Dtype::i64});
/// Shape, dtype, device and layout of another tensor.
TANDEM_API Tensor empty_like(const Tensor&);
TANDEM_API Tensor zeros_like(const Tensor&);
TANDEM_API Tensor ones_like(const Tensor&);

namespace detail {
TANDEM_API Tensor from_host(const void* data, size_t count, Dtype dtype, const Dims& shape, TensorOptions o);
}
/// A tensor with a copy of these values (row-major). The dtype is T's; `o.dtype` is ignored. Throws ShapeError where
/// the count does not fit the shape.
template <class T>
Tensor from_span(std::span<const T> values, const Dims& shape, TensorOptions o = {}) {
  return detail::from_host(values.data(), values.size(), dtype_of<T>, shape, o);
}
template <class T>
Tensor from_vector(const std::vector<T>& values, const Dims& shape, TensorOptions o = {}) {
  return from_span(std::span<const T>(values), shape, o);
}
/// One-dimensional, from a list: `tensor({1.f, 2.f})`.
template <class T>
Tensor tensor(std::initializer_list<T> values, TensorOptions o = {}) {
  return from_span(std::span<const T>(values.begin(), values.size()), {int64_t(values.size())}, o);
}
/// Zero-copy: a tensor over memory of the caller's, who is told by `deleter` when the last handle is gone.
TANDEM_API Tensor from_blob(void* data, const Dims& shape, std::function<void(void*)> deleter, TensorOptions = {});

/// As PyTorch prints it: nested brackets, four digits, summarised beyond 1000 elements, dtype unless f32.
TANDEM_API std::string to_string(const Tensor&);
TANDEM_API std::ostream& operator<<(std::ostream&, const Tensor&);

}  // namespace tandem
