#include <tandem/core/copy.h>
#include <tandem/core/enter.h>
#include <tandem/core/record.h>
#include <tandem/ops/pad.h>

#include <algorithm>

namespace tandem {
namespace {

constexpr OpId kPad{"pad"};

// What x and its padded form have in common, as a view of either.
struct Overlap {
  Dims shape, in_x, in_y;  // where it starts in each
  Tensor of(const Tensor& whole, const Dims& start) const {
    int64_t offset = whole.impl()->offset;
    for (int d = 0; d < shape.size(); ++d) offset += start[d] * whole.strides()[d];
    return whole.alias(shape, whole.strides(), offset);
  }
};

}  // namespace

Tensor pad(const Tensor& x_in, const Dims& pads, double value) {
  auto [x] = enter(kPad, x_in);
  const int dims = x.dim();
  check<ShapeError>(pads.size() % 2 == 0 && pads.size() / 2 <= dims, "[pad] ", pads,
                    " is not two numbers for each of the last dimensions of a tensor of ", dims);
  Dims shape = x.shape();
  Overlap common{shape, shape, shape};
  for (int d = 0; d < dims; ++d) {
    const int k = 2 * (dims - 1 - d);
    const int64_t before = k < pads.size() ? pads[k] : 0, after = k < pads.size() ? pads[k + 1] : 0;
    shape[d] += before + after;
    check<ShapeError>(shape[d] >= 0, "[pad] dimension ", d, " of size ", x.shape()[d], " can't be padded by ", before,
                      " and ", after);
    common.in_x[d] = std::max<int64_t>(0, -before);
    common.in_y[d] = std::max<int64_t>(0, before);
    common.shape[d] = std::max<int64_t>(0, std::min(x.shape()[d], shape[d] - before) - common.in_x[d]);
  }
  const bool crops = !(common.shape == x.shape());
  Tensor y = full(shape, value, {.dtype = x.dtype(), .device = x.device(), .layout = x.layout()});
  copy_into({common.of(y, common.in_y), 0}, common.of(x, common.in_x));
  return record("pad", y, {x}, [common, crops](Tensor& gy, Targets t) {
    if (!t[0]) return;
    if (!crops) return t[0].give(common.of(gy, common.in_y));
    Out gx = t[0].out();
    if (gx.beta == 0) fill_into(gx.t, 0);
    copy_into({common.of(gx.t, common.in_x), gx.beta}, common.of(gy, common.in_y));
  });
}

}  // namespace tandem
