#include <tandem/core/copy.h>
#include <tandem/core/enter.h>
#include <tandem/ops/next_rows.h>

#include <algorithm>

namespace tandem {

constexpr OpId kNextRows{"next_rows"};

Tensor next_rows(const Tensor& lists_in, Tensor& cursor_in, int64_t n) {
  auto [lists, cursor] = enter(kNextRows, lists_in, cursor_in);
  require_same_device("next_rows", {&lists, &cursor});
  check<DtypeError>(lists.dtype() == Dtype::i64 && cursor.dtype() == Dtype::i64,
                    "[next_rows] lists and cursor are i64, got ", lists.dtype(), " and ", cursor.dtype());
  check<ShapeError>(
      lists.dim() == 2 && cursor.shape() == Dims{kCursor} && lists.is_contiguous() && cursor.is_contiguous() && n >= 0,
      "[next_rows] takes ", n, " columns of dense lists [k,m] by a cursor [", int(kCursor), "], got ", lists.shape(),
      " and ", cursor.shape());
  Tensor y = empty({lists.size(0), n}, {.dtype = Dtype::i64, .device = lists.device()});
  Tensor at = cursor;
  next_rows_forward(lists.device(), y, lists, at);
  cursor.storage()->bump();
  return y;
}

namespace {

void next_rows_cpu(Tensor& y, const Tensor& lists, Tensor& cursor) {
  const int64_t n = y.size(1), m = lists.size(1);
  int64_t& position = cursor.ptr<int64_t>()[kCursorPosition];
  check(position >= 0 && position + n <= m, "[next_rows] ", n, " columns from ", position, " on, of ", m);
  for (int64_t k = 0; k < y.size(0); ++k)
    std::copy_n(lists.ptr<int64_t>() + k * m + position, n, y.ptr<int64_t>() + k * n);
  position += n;
}

TANDEM_KERNEL(next_rows_forward, cpu, next_rows_cpu);

}  // namespace
}  // namespace tandem
