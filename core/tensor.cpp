#include <tandem/core/autograd.h>
#include <tandem/core/backend.h>
#include <tandem/core/copy.h>
#include <tandem/core/enter.h>
#include <tandem/core/replica.h>

#include <cmath>

namespace tandem {

namespace {
// What stands for t in the calling thread's replica: outside of ops, too, it sees its own parameters and buffers.
const Tensor& here(const Tensor& t) {
  const Replica* r = context().replica;
  return r ? twin(t, *r) : t;
}
}  // namespace

TensorImpl::TensorImpl() = default;
TensorImpl::~TensorImpl() = default;

Tensor::Tensor(Ref<Storage> storage, const Dims& shape, const Dims& strides, Dtype dtype, int64_t offset)
    : p_(new TensorImpl) {
  p_->storage = std::move(storage);
  p_->shape = shape;
  p_->strides = strides;
  p_->dtype = dtype;
  p_->offset = offset;
}

void Tensor::throw_undefined() {
  const char* op = context().op;
  throw Error(message("an undefined tensor (Tensor() or one that was moved from) was used",
                      *op ? "; the op this thread last entered is " : "", op));
}

Tensor Tensor::alias(const Dims& shape, const Dims& strides, int64_t offset) const {
  return Tensor(it().storage, shape, strides, it().dtype, offset);
}
Tensor Tensor::detach() const {
  const Tensor& t = here(*this);
  return t.alias(t.it().shape, t.it().strides, t.it().offset);
}

bool Tensor::unique() const {
  return p_.count() == 1 && it().storage.count() == 1 && it().storage->pool && it().storage->bytes &&
         !(it().node && it().node->is_leaf) && is_dense_in_any_layout();
}

Leaf* Tensor::leaf() const {
  Node* n = it().node.get();
  return n && n->is_leaf ? static_cast<Leaf*>(n) : nullptr;
}

bool Tensor::is_leaf() const { return !it().node || it().node->is_leaf; }

Tensor& Tensor::set_requires_grad(bool on) {
  check(is_leaf(), "[set_requires_grad] this tensor is the result of ", it().node ? it().node->name : "",
        "; detach() gives one outside the graph");
  if (!on) {
    it().node = {};
  } else if (!it().node) {
    check<DtypeError>(is_floating(dtype()), "[set_requires_grad] only floating tensors have gradients, this is ",
                      dtype());
    auto* l = new Leaf;
    it().node = Ref<Node>(l);
    l->value = it().storage;
    l->value_offset = it().offset;
    Dims strides = is_dense_in_any_layout() ? it().strides : dense_strides(it().shape, Layout::row_major);
    l->meta = {it().shape, strides, dtype(), device()};
  }
  return *this;
}

Tensor Tensor::grad() const {
  Leaf* l = leaf();
  return l && l->written ? l->window : Tensor();
}

void Tensor::zero_grad() const {
  if (Leaf* l = leaf()) l->set_written(false);
}

int Tensor::register_hook(GradHook hook) const {
  check(requires_grad(), "[register_hook] this tensor does not require grad");
  auto& hooks = it().node->hooks;
  if (!hooks) hooks = std::make_unique<std::vector<HookEntry>>();
  static std::atomic<int> next_id{0};  // never given twice, so that a stale number removes nobody else's hook
  hooks->push_back({next_id++, std::move(hook)});
  return hooks->back().id;
}

void Tensor::remove_hook(int id) const {
  if (!requires_grad() || !it().node->hooks) return;
  auto& hooks = it().node->hooks;
  std::erase_if(*hooks, [&](auto& e) { return e.id == id; });
  if (hooks->empty()) hooks = nullptr;
}

void Tensor::backward(const Tensor& grad, bool retain_graph) const {
  check(requires_grad(), "[backward] this tensor does not require grad and comes from nothing that does");
  Tensor g = grad;
  if (!g) {
    check<ShapeError>(numel() == 1, "[backward] a gradient to start from is needed for a tensor of shape ", shape(),
                      ", it is 1 for one element only");
    g = ones(shape(), {.dtype = dtype(), .device = device()});
  }
  tandem::backward(std::span(this, 1), std::span(&g, 1), {.retain_graph = retain_graph});
}

void Tensor::require_host_access(Dtype want, Layout l) const {
  check<DtypeError>(dtype() == want, "[data] this tensor is ", dtype(), ", asked for as ", want);
  check<DeviceError>(device().is_cpu(), "[data] this tensor is on ", device(), ": to(cpu()) brings it to the host");
  check<ShapeError>(is_contiguous(l), "[data] this tensor of shape ", shape(), " and strides ", strides(), " is not ",
                    l, ": contiguous() makes a copy that is, or name the layout it has");
}

void Tensor::require_one_element() const {
  check<ShapeError>(numel() == 1, "[item] takes a tensor of one element, this has shape ", shape());
}

void Tensor::copy_out(void* to, Dtype dtype) const {
  if (numel() == 0) return;
  const Tensor& t = here(*this);
  Tensor host = t.device().is_cpu() ? t : copy_of(t, {.dtype = it().dtype, .device = cpu()});
  Tensor out = from_blob(to, shape(), {}, {.dtype = dtype, .device = host.device()});
  copy_into({out, 0}, host);
}

namespace {
// Of a tensor of this shape. Throws ShapeError where there is no such number.
size_t bytes_of(const char* op, const Dims& shape, Dtype dtype) {
  auto bytes = int64_t(size_of(dtype));
  for (int64_t n : shape) {
    check<ShapeError>(n >= 0, "[", op, "] negative size in ", shape);
    check<ShapeError>(!__builtin_mul_overflow(bytes, n, &bytes), "[", op, "] ", shape, " of ", dtype,
                      " takes more bytes than can be counted");
  }
  return size_t(bytes);
}
}  // namespace

Tensor empty(const Dims& shape, TensorOptions o) {
  Tensor t(Storage::make(bytes_of("empty", shape, o.dtype), o.device), shape, dense_strides(shape, o.layout), o.dtype);
  if (o.requires_grad) t.set_requires_grad();
  return t;
}

Tensor full(const Dims& shape, double value, TensorOptions o) {
  Tensor t = empty(shape, o);
  if (value == 0 && !std::signbit(value))
    zero_bytes(t.raw(), t.device(), t.storage()->bytes);
  else
    fill_into(t, value);
  return t;
}
Tensor zeros(const Dims& shape, TensorOptions o) { return full(shape, 0, o); }
Tensor ones(const Dims& shape, TensorOptions o) { return full(shape, 1, o); }
Tensor empty_like(const Tensor& t) { return empty(t.shape(), t.options()); }
Tensor zeros_like(const Tensor& t) { return zeros(t.shape(), t.options()); }
Tensor ones_like(const Tensor& t) { return ones(t.shape(), t.options()); }

Tensor arange(double start, double end, double step, TensorOptions o) {
  const double steps = (end - start) / step;
  check(step != 0 && steps >= 0 && std::isfinite(steps), "[arange] from ", start, " to ", end, " by ", step);
  auto n = int64_t(std::ceil(steps));
  std::vector<double> v(static_cast<size_t>(n));
  for (size_t i = 0; i < v.size(); ++i) v[i] = start + double(i) * step;
  Tensor host = from_vector(v, {n}, {.device = cpu()});
  return copy_of(host, o);
}

Tensor detail::from_host(const void* data, size_t count, Dtype dtype, const Dims& shape, TensorOptions o) {
  check<ShapeError>(int64_t(count) == shape.numel(), "[from_vector] ", count, " values for shape ", shape);
  o.dtype = dtype;
  bool requires_grad = std::exchange(o.requires_grad, false);
  Tensor t;
  if (o.layout == Layout::row_major || shape.size() != 4) {
    t = empty(shape, o);
    copy_bytes(t.raw(), o.device, data, cpu(), count * size_of(dtype));
  } else {
    t = copy_of(from_host(data, count, dtype, shape, {.device = o.device}), o);
  }
  if (requires_grad) t.set_requires_grad();
  return t;
}

Tensor from_blob(void* data, const Dims& shape, std::function<void(void*)> deleter, TensorOptions o) {
  auto s = Storage::foreign(data, bytes_of("from_blob", shape, o.dtype), o.device, std::move(deleter));
  Tensor t(std::move(s), shape, dense_strides(shape, o.layout), o.dtype);
  if (o.requires_grad) t.set_requires_grad();
  return t;
}

void require_same_device(const char* op, std::initializer_list<const Tensor*> tensors) {
  const Tensor* first = nullptr;
  for (const Tensor* t : tensors) {
    if (!*t) continue;
    if (!first) first = t;
    check<DeviceError>(t->device() == first->device(), "[", op, "] one tensor is on ", first->device(), ", another on ",
                       t->device(), ": to(device) copies");
  }
}

}  // namespace tandem
