/// Where a pass over a list of row numbers stands, kept beside the list on its device: a training step that takes its
/// batch here reads nothing from the host, so that it can be captured (core/step_graph.h) and moves on at each replay.
#pragma once
#include <tandem/core/kernel.h>
#include <tandem/core/tensor.h>

namespace tandem {

/// What a cursor holds, i64 [kCursor]. Epoch and seed are for others to read (ops/augment.h).
enum CursorPart { kCursorPosition, kCursorEpoch, kCursorSeed, kCursor };

/// y = the columns of `lists` from the cursor's position on, which then moves behind them. All i64: y [k,n], lists
/// [k,m].
inline constinit TANDEM_API KernelSlot<void(Tensor& y, const Tensor& lists, Tensor& cursor)> next_rows_forward{
    "next_rows_forward"};

/// The next n columns of `lists`, i64 [k,m]: [k,n], say the numbers of a batch's rows, and of its samples. `cursor` is
/// i64 [kCursor] on the same device; its position moves behind them. Throws Error where fewer are left, on CUDA where
/// the host next waits for the device.
TANDEM_API Tensor next_rows(const Tensor& lists, Tensor& cursor, int64_t n);

}  // namespace tandem
