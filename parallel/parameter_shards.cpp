#include <tandem/core/backend.h>
#include <tandem/parallel/parameter_shards.h>

#include <algorithm>

namespace tandem {
namespace {

size_t bytes_of(const Tensor& t) { return size_t(t.numel()) * size_of(t.dtype()); }

// A window of that storage, or of what it is itself a window of.
Ref<Storage> stretch_of(const Ref<Storage>& s, const void* first, size_t bytes) {
  const Ref<Storage>& base = s->base ? s->base : s;
  return Storage::window(base, size_t(static_cast<const std::byte*>(first) - base->data), bytes);
}

Tensor stretch_of(const Tensor& t, int64_t from, int64_t n) {
  const size_t size = size_of(t.dtype());
  const auto* first = static_cast<const std::byte*>(t.raw()) + size_t(from) * size;
  return Tensor(stretch_of(t.storage(), first, size_t(n) * size), {n}, {1}, t.dtype());
}

}  // namespace

ParameterBlock::ParameterBlock(const std::vector<std::pair<size_t, Tensor>>& params, int parts) {
  const Tensor& like = params.front().second;
  const size_t size = size_of(like.dtype());
  size_t bytes = 0;
  for (auto& [number, p] : params) {
    rows_.push_back({number, int64_t(bytes / size), p});
    bytes += aligned(bytes_of(p));
  }
  const size_t part_bytes = std::max(aligned((bytes + size_t(parts) - 1) / size_t(parts)), kAlignment);
  part_ = int64_t(part_bytes / size);
  Ref<Storage> memory = Storage::make(part_bytes * size_t(parts), like.device());
  zero_bytes(memory->data, memory->device, memory->bytes);
  for (const Row& r : rows_) r.tensor.storage()->rebind(memory, size_t(r.offset) * size);
  values_ = Tensor(memory, {parts, part_}, {part_, 1}, like.dtype());
  lay_out_gradients();
}

// As an optimizer does at its construction. What a reducer has laid out stays where it is.
void ParameterBlock::lay_out_gradients() const {
  const size_t size = size_of(values_.dtype());
  Ref<Storage> memory;
  for (const Row& r : rows_) {
    Leaf& l = *r.tensor.leaf();
    const bool loose = !l.window || l.window.storage()->pool;
    if (!loose) continue;
    if (!memory) {
      memory = Storage::make(values_.storage()->bytes, values_.device());
      zero_bytes(memory->data, memory->device, memory->bytes);
    }
    const size_t at = size_t(r.offset) * size;
    if (l.window)
      l.window.storage()->rebind(memory, at, l.written);
    else
      l.window = Tensor(Storage::window(memory, at, bytes_of(r.tensor)), l.meta.shape, l.meta.strides, l.meta.dtype);
  }
}

void ParameterBlock::require_in_place() const {
  const auto size = int64_t(size_of(values_.dtype()));
  const auto* first = static_cast<const std::byte*>(values_.raw());
  for (const Row& r : rows_)
    check(r.tensor.raw() == first + r.offset * size, "[ZeroRedundancyOptimizer] parameter ", r.param, " of shape ",
          r.tensor.shape(), " has been moved or converted: make the optimizer after that");
}

void ParameterPiece::follow_gradient() const {
  const Leaf* from_leaf = whole.leaf();
  Leaf& to = *tensor.leaf();
  to.set_written(from_leaf && from_leaf->written);
  if (!to.written) return;
  const auto* first = static_cast<const std::byte*>(from_leaf->window.raw()) + from * int64_t(size_of(tensor.dtype()));
  if (to.window.raw() != first) to.window = stretch_of(from_leaf->window, from, tensor.numel());
}

std::vector<ParameterPiece> pieces_of(const ParameterBlock& block, int part, size_t block_number) {
  const int64_t begin = part * block.part_elements(), end = begin + block.part_elements();
  std::vector<ParameterPiece> pieces;
  for (auto row = block.rows().rbegin(); row != block.rows().rend(); ++row) {
    const int64_t from = std::max(row->offset, begin);
    const int64_t n = std::min(row->offset + row->tensor.numel(), end) - from;
    if (n <= 0) continue;
    ParameterPiece p{.param = row->param,
                     .whole = row->tensor,
                     .from = from - row->offset,
                     .at = from - begin,
                     .block = block_number,
                     .tensor = stretch_of(row->tensor, from - row->offset, n)};
    p.tensor.set_requires_grad();
    p.tensor.leaf()->window = stretch_of(row->tensor.leaf()->window, p.from, n);
    pieces.push_back(std::move(p));
  }
  return pieces;
}

}  // namespace tandem
