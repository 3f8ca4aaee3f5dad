// The CPU kernel goes row by row: the row's bytes are brought together first (padding, cropping, flipping), then each
// is looked up in a table of its channel's 256 results, which makes normalising exact and cheap.
#include <tandem/core/copy.h>
#include <tandem/core/enter.h>
#include <tandem/core/parallel_for.h>
#include <tandem/ops/augment_placement.h>
#include <tandem/ops/next_rows.h>
#include <tandem/ops/widen.h>

#include <algorithm>
#include <tuple>

namespace tandem {

constexpr OpId kAugment{"augment"};

namespace {

void check_crop(const Tensor& x, const AugmentOptions::Crop& c) {
  int64_t h = x.size(2), w = x.size(3);
  check<ShapeError>(
      c.height > 0 && c.width > 0 && c.padding >= 0 && c.height <= h + 2 * c.padding && c.width <= w + 2 * c.padding,
      "[augment] a crop of ", c.height, "x", c.width, " from images of ", h, "x", w, " padded by ", c.padding);
  check<ShapeError>(c.mode != PaddingMode::reflect || (c.padding < h && c.padding < w), "[augment] reflecting ",
                    c.padding, " pixels of images of ", h, "x", w);
  check<ShapeError>(c.padding == 0 || (h > 0 && w > 0), "[augment] padding images of ", h, "x", w);
}

void check_indices(const char* what, const Tensor& t) {
  if (!t) return;
  check<DtypeError>(t.dtype() == Dtype::i64, "[augment] ", what, " are i64, got ", t.dtype());
  check<ShapeError>(t.dim() == 1, "[augment] ", what, " have one dimension, got ", t.shape());
}

}  // namespace

Tensor augment(const Tensor& images_in, const Tensor& rows_in, const AugmentKey& key_in, const AugmentOptions& o) {
  auto [images, rows, samples, cursor] = enter(kAugment, images_in, rows_in, key_in.samples, key_in.cursor);
  require_same_device("augment", {&images, &rows, &samples, &cursor});
  check<ShapeError>(images.dim() == 4, "[augment] takes images [n,c,h,w], got ", images.shape());
  check<DtypeError>(images.dtype() == Dtype::u8 || is_floating(images.dtype()),
                    "[augment] takes u8 or floating images, got ", images.dtype());
  check_indices("rows", rows);
  check_indices("samples", samples);
  check_indices("cursors", cursor);
  const int64_t n = rows ? rows.size(0) : images.size(0), c = images.size(1);
  check<ShapeError>(!samples || samples.size(0) == n, "[augment] ", samples ? samples.size(0) : 0, " samples for ", n,
                    " images");
  if (o.crop) check_crop(images, *o.crop);
  const bool normalises = !o.mean.empty();
  const bool fits = o.mean.size() == o.std.size() && (o.mean.size() <= 1 || int64_t(o.mean.size()) == c);
  check<ShapeError>(fits, "[augment] ", o.mean.size(), " means and ", o.std.size(), " deviations for images of ", c,
                    " channels");
  const bool from_bytes = images.dtype() == Dtype::u8;
  check<DtypeError>(!normalises || o.to_float || !from_bytes,
                    "[augment] bytes can't be normalised: ToTensor comes before Normalize");
  if (rows && rows.device().is_cpu()) {
    Tensor dense = as_dense(rows);
    for (int64_t r : dense.span<int64_t>())
      check<ShapeError>(r >= 0 && r < images.size(0), "[augment] row ", r, " of ", images.size(0), " images");
  }
  Tensor y = empty({n, c, o.crop ? o.crop->height : images.size(2), o.crop ? o.crop->width : images.size(3)},
                   {.dtype = from_bytes && o.to_float ? Dtype::f32 : images.dtype(),
                    .device = images.device(),
                    .layout = Layout::channels_last});
  augment_forward(images.device(), y, as_dense(images), rows ? as_dense(rows) : Tensor(),
                  AugmentKey{key_in.seed, key_in.epoch, samples ? as_dense(samples) : Tensor(), cursor}, o);
  return y;
}

namespace {

using detail::Placement, detail::unpad;

// Where the columns of an output row come from: [begin, end) from inside the image, `first` and on by `step`.
struct Columns {
  int64_t begin, end, first, step;

  Columns(const Placement& p, int64_t w, int64_t out_w) {
    begin = std::clamp<int64_t>(-p.dx, 0, out_w);
    end = std::clamp<int64_t>(w - p.dx, begin, out_w);
    if (p.flip) std::tie(begin, end) = std::pair(out_w - end, out_w - begin);
    step = p.flip ? -1 : 1;
    first = column(p, out_w, begin);
  }
  /// In the unpadded image, maybe outside.
  static int64_t column(const Placement& p, int64_t out_w, int64_t x) { return (p.flip ? out_w - 1 - x : x) + p.dx; }
};

// A whole image: `value(channel, element)` makes an output element of an input element. C is the number of channels, or
// 0 for what x says.
template <int C, class In, class To, class Value>
class ImageWriter {
 public:
  ImageWriter(const Tensor& x, const Tensor& y, const AugmentOptions& o, const Value& value)
      : c_(C ? C : x.size(1)),
        h_(x.size(2)),
        w_(x.size(3)),
        out_h_(y.size(2)),
        out_w_(y.size(3)),
        plane_(x.stride(1)),
        stride_y_(x.stride(2)),
        stride_x_(x.stride(3)),
        mode_(o.crop ? o.crop->mode : PaddingMode::constant),
        fill_(o.crop ? In(o.crop->fill) : In(0)),
        value_(value) {}

  void write(To* out, const In* image, const Placement& p) const {
    const Columns in(p, w_, out_w_);
    for (int64_t y = 0; y < out_h_; ++y, out += out_w_ * c_) {
      const int64_t from = unpad(y + p.dy, h_, mode_);
      if (from < 0) {
        for (int64_t x = 0; x < out_w_; ++x) write_fill(out + x * c_);
      } else {
        const In* row = image + from * stride_y_;
        for (int64_t x = 0; x < in.begin; ++x) write_border(out + x * c_, row, Columns::column(p, out_w_, x));
        write_inside(out + in.begin * c_, row + in.first * stride_x_, in.end - in.begin, in.step * stride_x_);
        for (int64_t x = in.end; x < out_w_; ++x) write_border(out + x * c_, row, Columns::column(p, out_w_, x));
      }
      if (p.hole && y >= p.hole_y && y < p.hole_y + p.hole) {
        const int64_t a = std::clamp<int64_t>(p.hole_x, 0, out_w_), b = std::clamp(p.hole_x + p.hole, a, out_w_);
        std::fill(out + a * c_, out + b * c_, To(0));
      }
    }
  }

 private:
  int64_t channels() const { return C ? C : c_; }
  void write_fill(To* out) const {
    for (int64_t k = 0; k < channels(); ++k) out[k] = value_(k, fill_);
  }
  void write_border(To* out, const In* row, int64_t column) const {
    const int64_t x = unpad(column, w_, mode_);
    if (x < 0) return write_fill(out);
    for (int64_t k = 0; k < channels(); ++k) out[k] = value_(k, row[k * plane_ + x * stride_x_]);
  }
  void write_inside(To* out, const In* from, int64_t n, int64_t step) const {
    const int64_t c = channels(), plane = plane_;
    for (int64_t x = 0; x < n; ++x, from += step, out += c)
      for (int64_t k = 0; k < c; ++k) out[k] = value_(k, from[k * plane]);
  }

  int64_t c_, h_, w_, out_h_, out_w_, plane_, stride_y_, stride_x_;
  PaddingMode mode_;
  In fill_;
  Value value_;
};

template <int C, class In, class To, class Value>
void write_images(Tensor& y, const Tensor& x, const Tensor& rows, const AugmentKey& key, const AugmentOptions& o,
                  const Value& value) {
  const ImageWriter<C, In, To, Value> writer(x, y, o, value);
  const In* from = x.ptr<In>();
  const detail::Placer place(o, x.size(2), x.size(3), y.size(2), y.size(3));
  const int64_t* row = rows ? rows.ptr<int64_t>() : nullptr;
  const int64_t* cursor = key.cursor ? key.cursor.ptr<int64_t>() : nullptr;
  const uint64_t seed = cursor ? uint64_t(cursor[kCursorSeed]) : key.seed;
  const int64_t epoch = cursor ? cursor[kCursorEpoch] : key.epoch;
  const int64_t* sample = key.samples ? key.samples.ptr<int64_t>() : nullptr;
  To* to = y.ptr<To>();
  const int64_t in_size = x.stride(0), out_size = y.stride(0);
  parallel_for(y.size(0), 16, [&](int64_t begin, int64_t end) {
    for (int64_t i = begin; i < end; ++i)
      writer.write(to + i * out_size, from + (row ? row[i] : i) * in_size, place(seed, epoch, sample ? sample[i] : i));
  });
}

template <class In, class To, class Value>
void write_images(Tensor& y, const Tensor& x, const Tensor& rows, const AugmentKey& key, const AugmentOptions& o,
                  const Value& value) {
  if (y.numel() == 0) return;
  if (x.size(1) == 3)
    write_images<3, In, To>(y, x, rows, key, o, value);
  else
    write_images<0, In, To>(y, x, rows, key, o, value);
}

// One channel's mean and deviation in T: PyTorch subtracts, then divides, rounding each time.
template <class T>
struct Scale {
  bool on;
  std::vector<T> mean, std;
  Scale(const AugmentOptions& o, int64_t channels) : on(!o.mean.empty()) {
    for (int64_t k = 0; on && k < channels; ++k) {
      mean.push_back(T(o.mean[o.mean.size() == 1 ? 0 : size_t(k)]));
      std.push_back(T(o.std[o.std.size() == 1 ? 0 : size_t(k)]));
    }
  }
  T operator()(int64_t k, T v) const { return on ? (v - mean[size_t(k)]) / std[size_t(k)] : v; }
};

void augment_cpu(Tensor& y, const Tensor& x, const Tensor& rows, const AugmentKey& key, const AugmentOptions& o) {
  const int64_t channels = x.size(1);
  if (x.dtype() != Dtype::u8) {
    dispatch_real("augment", x.dtype(), [&](auto t) {
      using T = decltype(t);
      write_images<T, T>(y, x, rows, key, o, Scale<T>(o, channels));
    });
  } else if (!o.to_float) {
    write_images<uint8_t, uint8_t>(y, x, rows, key, o, [](int64_t, uint8_t v) { return v; });
  } else {
    const Scale<float> scale(o, channels);
    std::vector<float> table(size_t(channels) * 256);
    for (int64_t k = 0; k < channels; ++k)
      for (int v = 0; v < 256; ++v) table[size_t(k * 256 + v)] = scale(k, float(v) / 255.f);
    write_images<uint8_t, float>(y, x, rows, key, o,
                                 [t = table.data()](int64_t k, uint8_t v) { return t[k * 256 + v]; });
  }
}

TANDEM_CPU_KERNEL(augment_forward, augment_cpu);

}  // namespace
}  // namespace tandem
