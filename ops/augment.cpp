// The CPU kernel goes row by row: the row's bytes are brought together first (padding, cropping, flipping), then each
// is looked up in a table of its channel's 256 results, which makes normalising exact and cheap.
#include <tandem/core/copy.h>
#include <tandem/core/enter.h>
#include <tandem/core/parallel_for.h>
#include <tandem/ops/augment.h>
#include <tandem/ops/widen.h>

#include <algorithm>
#include <cstring>

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
  auto [images, rows, samples] = enter(kAugment, images_in, rows_in, key_in.samples);
  require_same_device("augment", {&images, &rows, &samples});
  check<ShapeError>(images.dim() == 4, "[augment] takes images [n,c,h,w], got ", images.shape());
  check<DtypeError>(images.dtype() == Dtype::u8 || is_floating(images.dtype()),
                    "[augment] takes u8 or floating images, got ", images.dtype());
  check_indices("rows", rows);
  check_indices("samples", samples);
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
                  AugmentKey{key_in.seed, key_in.epoch, samples ? as_dense(samples) : Tensor()}, o);
  return y;
}

namespace {

// What was drawn for one image.
struct Placement {
  int64_t dy = 0, dx = 0;  // of the output's origin in the unpadded image
  bool flip = false;
  int64_t hole_y = 0, hole_x = 0, hole = 0;
};

// [0, n), from 32 random bits.
int64_t below(uint32_t bits, int64_t n) { return int64_t(uint64_t(bits) * uint64_t(n) >> 32); }

Placement place(const AugmentOptions& o, const AugmentKey& key, int64_t sample, const Tensor& x, const Tensor& y) {
  Placement p;
  if (auto& c = o.crop) {
    auto draws = augment_draws(key.seed, key.epoch, sample, c->draw);
    p.dy = below(draws[0], x.size(2) + 2 * c->padding - c->height + 1) - c->padding;
    p.dx = below(draws[1], x.size(3) + 2 * c->padding - c->width + 1) - c->padding;
  }
  if (auto& f = o.flip) p.flip = augment_draws(key.seed, key.epoch, sample, f->draw)[0] * 0x1p-32 < f->p;
  if (auto& c = o.cutout) {
    auto draws = augment_draws(key.seed, key.epoch, sample, c->draw);
    p.hole = c->length;
    p.hole_y = below(draws[0], y.size(2)) - c->length / 2;
    p.hole_x = below(draws[1], y.size(3)) - c->length / 2;
  }
  return p;
}

// Index i of the padded image in the image itself, or -1 where the padding's value stands.
int64_t unpad(int64_t i, int64_t n, PaddingMode mode) {
  if (i >= 0 && i < n) return i;
  if (mode == PaddingMode::constant) return -1;
  if (mode == PaddingMode::edge) return std::clamp<int64_t>(i, 0, n - 1);
  return i < 0 ? -i : 2 * (n - 1) - i;
}

// One channel's row as it comes out, still in the input's type.
template <class T>
class RowReader {
 public:
  RowReader(const Tensor& x, int64_t out_width, const AugmentOptions& o)
      : h_(x.size(2)),
        w_(x.size(3)),
        out_w_(out_width),
        stride_y_(x.stride(2)),
        stride_x_(x.stride(3)),
        mode_(o.crop ? o.crop->mode : PaddingMode::constant),
        fill_(o.crop ? T(o.crop->fill) : T(0)),
        scratch_(size_t(out_width)) {}

  void read(T* to, const T* plane, const Placement& p, int64_t y) {
    T* line = p.flip ? scratch_.data() : to;
    const int64_t from_y = unpad(y + p.dy, h_, mode_);
    if (from_y < 0) {
      std::fill_n(to, out_w_, fill_);
      return;
    }
    const T* row = plane + from_y * stride_y_;
    const int64_t a = std::clamp<int64_t>(-p.dx, 0, out_w_), b = std::clamp<int64_t>(w_ - p.dx, a, out_w_);
    if (stride_x_ == 1)
      std::memcpy(line + a, row + a + p.dx, size_t(b - a) * sizeof(T));
    else
      for (int64_t x = a; x < b; ++x) line[x] = row[(x + p.dx) * stride_x_];
    for (int64_t x = 0; x < a; ++x) line[x] = around(row, x + p.dx);
    for (int64_t x = b; x < out_w_; ++x) line[x] = around(row, x + p.dx);
    if (p.flip)
      for (int64_t x = 0, w = out_w_; x < w; ++x) to[x] = line[w - 1 - x];
  }

 private:
  T around(const T* row, int64_t x) const {
    int64_t i = unpad(x, w_, mode_);
    return i < 0 ? fill_ : row[i * stride_x_];
  }
  int64_t h_, w_, out_w_, stride_y_, stride_x_;
  PaddingMode mode_;
  T fill_;
  std::vector<T> scratch_;
};

// Everything but the values: `value(channel, element)` makes an output element of an input element.
template <class In, class To, class Value>
void run(Tensor& y, const Tensor& x, const Tensor& rows, const AugmentKey& key, const AugmentOptions& o,
         const Value& value) {
  const int64_t c = y.size(1), h = y.size(2), w = y.size(3), image = x.stride(0), plane = x.stride(1);
  if (y.numel() == 0) return;
  const In* from = x.ptr<In>();
  const int64_t* row = rows ? rows.ptr<int64_t>() : nullptr;
  const int64_t* sample = key.samples ? key.samples.ptr<int64_t>() : nullptr;
  To* to = y.ptr<To>();
  parallel_for(y.size(0), 16, [&, c, h, w, image, plane](int64_t begin, int64_t end) {
    RowReader<In> reader(x, w, o);
    std::vector<In> lines(size_t(c * w));
    for (int64_t i = begin; i < end; ++i) {
      const Placement p = place(o, key, sample ? sample[i] : i, x, y);
      const In* source = from + (row ? row[i] : i) * image;
      for (int64_t yy = 0; yy < h; ++yy) {
        for (int64_t k = 0; k < c; ++k) reader.read(lines.data() + k * w, source + k * plane, p, yy);
        To* out = to + (i * h + yy) * w * c;
        const In* line = lines.data();
        if (c == 3) {
          for (int64_t xx = 0; xx < w; ++xx) {
            out[3 * xx] = value(0, line[xx]);
            out[3 * xx + 1] = value(1, line[w + xx]);
            out[3 * xx + 2] = value(2, line[2 * w + xx]);
          }
        } else {
          for (int64_t xx = 0; xx < w; ++xx)
            for (int64_t k = 0; k < c; ++k) out[xx * c + k] = value(k, line[k * w + xx]);
        }
        if (p.hole && yy >= p.hole_y && yy < p.hole_y + p.hole) {
          const int64_t a = std::max<int64_t>(p.hole_x, 0), b = std::min(p.hole_x + p.hole, w);
          if (a < b) std::fill(out + a * c, out + b * c, To(0));
        }
      }
    }
  });
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
      run<T, T>(y, x, rows, key, o, Scale<T>(o, channels));
    });
  } else if (!o.to_float) {
    run<uint8_t, uint8_t>(y, x, rows, key, o, [](int64_t, uint8_t v) { return v; });
  } else {
    const Scale<float> scale(o, channels);
    std::vector<float> table(size_t(channels) * 256);
    for (int64_t k = 0; k < channels; ++k)
      for (int v = 0; v < 256; ++v) table[size_t(k * 256 + v)] = scale(k, float(v) / 255.f);
    run<uint8_t, float>(y, x, rows, key, o, [t = table.data()](int64_t k, uint8_t v) { return t[k * 256 + v]; });
  }
}

TANDEM_CPU_KERNEL(augment_forward, augment_cpu);

}  // namespace
}  // namespace tandem
