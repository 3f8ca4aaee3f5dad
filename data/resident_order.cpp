#include <tandem/core/backend.h>
#include <tandem/data/resident_order.h>
#include <tandem/ops/index.h>
#include <tandem/ops/next_rows.h>
#include <tandem/ops/view.h>

#include <array>

namespace tandem::data {
namespace {

void write(const Tensor& to, int64_t offset, std::span<const int64_t> values) {
  copy_bytes(to.ptr<int64_t>() + offset, to.device(), values.data(), cpu(), values.size_bytes());
}

}  // namespace

ResidentOrder::ResidentOrder(Device d, int64_t items)
    : lists_(zeros({2, items}, {.dtype = Dtype::i64, .device = d})),
      cursor_(zeros({kCursor}, {.dtype = Dtype::i64, .device = d})) {}

void ResidentOrder::begin(std::span<const int64_t> rows, const DrawKey& key) {
  const int64_t items = lists_.size(1);
  check(int64_t(rows.size()) == items && int64_t(key.samples.size()) == items, "[DataLoader] an epoch of ", rows.size(),
        " items, after epochs of ", items);
  write(lists_, 0, rows);
  write(lists_, items, key.samples);
  write(cursor_, 0, std::array<int64_t, kCursor>{0, key.epoch, int64_t(key.seed)});
  position_ = 0;
}

void ResidentOrder::go_to(int64_t position) {
  write(cursor_, kCursorPosition, std::array{position});
  position_ = position;
}

Batch ResidentOrder::next(const ByteImages& images, const Transform& transform, const DrawKey& key, int64_t n) {
  Tensor taken = next_rows(lists_, cursor_, n);
  Tensor rows = select(taken, 0, 0), samples = select(taken, 0, 1);
  count(n);
  Batch b;
  b.input = transform.gather(images.images, rows, {.samples = samples, .cursor = cursor_}, key);
  b.target = index_select(images.labels, 0, rows);
  return b;
}

}  // namespace tandem::data
