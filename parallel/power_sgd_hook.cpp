#include <tandem/core/autograd.h>
#include <tandem/core/copy.h>
#include <tandem/core/generator.h>
#include <tandem/ops/binary.h>
#include <tandem/ops/compare.h>
#include <tandem/ops/matmul.h>
#include <tandem/parallel/power_sgd_hook.h>

#include <cmath>
#include <map>

namespace tandem {
namespace {

// Columns side by side, in f64.
class Columns {
 public:
  explicit Columns(const Tensor& t) : rows_(t.size(0)), columns_(t.size(1)), v_(t.to_vector<double>()) {}

  bool finite(int64_t j) const {
    for (int64_t i = 0; i < rows_; ++i)
      if (!std::isfinite(at(i, j))) return false;
    return true;
  }
  double norm(int64_t j) const { return std::sqrt(dot(j, j)); }
  void randomize(int64_t j, Generator& g) {
    for (int64_t i = 0; i < rows_; ++i) at(i, j) = 2 * g.uniform_double() - 1;
  }
  // Takes out what lies along the columns before it, twice, since once leaves rounding errors of what it took.
  void project(int64_t j) {
    for (int pass = 0; pass < 2; ++pass)
      for (int64_t k = 0; k < j; ++k) {
        const double along = dot(k, j);
        for (int64_t i = 0; i < rows_; ++i) at(i, j) -= along * at(i, k);
      }
  }
  void scale(int64_t j, double factor) {
    for (int64_t i = 0; i < rows_; ++i) at(i, j) *= factor;
  }
  void write(Tensor t) const { copy_into({t, 0}, from_vector(v_, {rows_, columns_}, {.device = cpu()})); }
  int64_t size() const { return columns_; }

 private:
  double& at(int64_t i, int64_t j) { return v_[size_t(i * columns_ + j)]; }
  double at(int64_t i, int64_t j) const { return v_[size_t(i * columns_ + j)]; }
  double dot(int64_t a, int64_t b) const {
    double sum = 0;
    for (int64_t i = 0; i < rows_; ++i) sum += at(i, a) * at(i, b);
    return sum;
  }
  const int64_t rows_, columns_;
  std::vector<double> v_;
};

// A column is taken for a combination of those before it where less than this is left of it.
constexpr double kVanished = 1e-6;

// Gram-Schmidt on the host, where all ranks compute the same bits from the same matrix. What vanishes or is not finite
// is replaced by random values. [n, r] with r <= n.
void orthogonalize(const Tensor& t, Generator& random) {
  Columns c(t);
  for (int64_t j = 0; j < c.size(); ++j) {
    double before = c.finite(j) ? c.norm(j) : 0;
    c.project(j);
    while (!(before > 0) || !(c.norm(j) > kVanished * before)) {
      c.randomize(j, random);
      before = c.norm(j);
      c.project(j);
    }
    c.scale(j, 1 / c.norm(j));
  }
  c.write(t);
}

// One parameter's gradient, compressed: windows into the bucket's memories.
struct Matrix {
  Tensor gradient, error;  // [rows, columns]
  Tensor p, q;             // [rows, r], [columns, r]
};

struct BucketState {
  std::vector<Matrix> matrices;
  struct Plain {
    Tensor gradient, packed;  // [elements]
  };
  std::vector<Plain> plain;
  Tensor first, second;                   // what travels: plain gradients and all P, then all Q
  Tensor error;                           // as the bucket's flat memory, of each of error_samples samples
  double error_samples = 0, samples = 0;  // the latter in this step
  int64_t iteration = 0;
  bool compressing = false, finite = true;
};

class PowerSGD final : public CommHook {
 public:
  explicit PowerSGD(const PowerSGDOptions& o) : options_(o), random_(o.random_seed) {}

  Work start(GradBucket& b, Communicator& c) override {
    BucketState& s = states_[b.index];
    s.compressing = s.iteration++ >= options_.start_powerSGD_iter;
    if (!s.compressing) return c.all_reduce_async(b.flat, {.premultiply = b.weight, .label = b.label});
    NoGradGuard no_grad;
    if (!s.first) lay_out(s, b);
    // Of what was lost for n samples, m samples get n / m each: the ranks' errors have their weights, whatever they are
    // in this step. (Their errors have the ranks' differences in them, which only so add up to nothing.)
    s.samples = b.weight.narrow(0, 0, 1).item<double>();
    if (s.error && s.error_samples > 0 && s.samples > 0) b.flat.add_(s.error, s.error_samples / s.samples);
    for (Matrix& m : s.matrices) {
      if (!options_.warm_start) m.q.zero_();
      orthogonalize(m.q, random_);
      copy_into({m.p, 0}, matmul(m.gradient, m.q));
    }
    for (auto& [gradient, packed] : s.plain) copy_into({packed, 0}, gradient);
    return c.all_reduce_async(s.first, {.premultiply = b.weight, .label = b.label + ", P"});
  }

  Work start_second(GradBucket& b, Communicator& c) override {
    BucketState& s = states_[b.index];
    if (!s.compressing) return {};
    NoGradGuard no_grad;
    s.finite = all(isfinite(s.first)).item<bool>();
    for (Matrix& m : s.matrices) {
      if (s.finite) orthogonalize(m.p, random_);
      copy_into({m.q, 0}, matmul(m.gradient.t(), m.p));
    }
    if (s.matrices.empty()) return {};
    return c.all_reduce_async(s.second, {.premultiply = b.weight, .label = b.label + ", Q"});
  }

  void finish(GradBucket& b) override {
    BucketState& s = states_[b.index];
    if (!s.compressing) return;
    NoGradGuard no_grad;
    for (auto& [gradient, packed] : s.plain) copy_into({gradient, 0}, packed);
    s.finite = s.finite && all(isfinite(s.second)).item<bool>();
    const bool keeps_error = s.error && s.finite && s.samples > 0;
    if (keeps_error) s.error_samples = s.samples;
    for (Matrix& m : s.matrices) {
      if (keeps_error) copy_into({m.error, 0}, m.gradient);
      decompress(m, s.finite);
      if (keeps_error) m.error.add_(m.gradient, -1);
    }
  }

 private:
  bool is_compressed(int64_t rows, int64_t columns) const {
    const auto sent = double(rows + columns) * double(rank_of(rows, columns));
    return sent * options_.min_compression_rate < double(rows) * double(columns);
  }
  int64_t rank_of(int64_t rows, int64_t columns) const {
    return std::min({rows, columns, options_.matrix_approximation_rank});
  }

  void lay_out(BucketState& s, const GradBucket& b) {
    const TensorOptions like = b.flat.options();
    if (options_.use_error_feedback) s.error = zeros(b.flat.shape(), like);
    // A gradient's memory is dense and its first dimension the slowest, in either layout.
    struct Size {
      int64_t rows, columns, offset;
      bool compressed;
    };
    std::vector<Size> sizes;
    int64_t first = 0, second = 0;
    for (const Tensor& g : b.gradients) {
      const int64_t rows = g.dim() ? g.size(0) : 1, columns = rows ? g.numel() / rows : 0;
      const auto offset = static_cast<std::byte*>(g.raw()) - static_cast<std::byte*>(b.flat.raw());
      sizes.push_back(
          {rows, columns, offset / int64_t(size_of(g.dtype())), g.dim() >= 2 && is_compressed(rows, columns)});
      first += sizes.back().compressed ? rows * rank_of(rows, columns) : g.numel();
      second += sizes.back().compressed ? columns * rank_of(rows, columns) : 0;
    }
    s.first = zeros({first}, like);
    s.second = zeros({second}, like);
    int64_t p = 0, q = 0;
    for (const Size& z : sizes) {
      if (!z.compressed) {
        const int64_t n = z.rows * z.columns;
        s.plain.push_back({b.flat.narrow(0, z.offset, n), s.first.narrow(0, p, n)});
        p += n;
        continue;
      }
      auto window = [](const Tensor& flat, int64_t rows, int64_t columns, int64_t at) {
        return flat ? flat.alias({rows, columns}, {columns, 1}, flat.impl()->offset + at) : Tensor();
      };
      const int64_t r = rank_of(z.rows, z.columns);
      s.matrices.push_back({window(b.flat, z.rows, z.columns, z.offset), window(s.error, z.rows, z.columns, z.offset),
                            window(s.first, z.rows, r, p), window(s.second, z.columns, r, q)});
      p += z.rows * r;
      q += z.columns * r;
    }
  }

  // Products of columns added up: elementwise, so that all ranks compute the same bits, whatever their machines.
  static void decompress(const Matrix& m, bool finite) {
    Tensor g = m.gradient;
    if (!finite) {
      g.fill_(std::nan(""));
      return;
    }
    const Tensor rows = m.q.t();
    for (int64_t k = 0; k < m.p.size(1); ++k) {
      const Tensor product = m.p.narrow(1, k, 1) * rows.narrow(0, k, 1);
      copy_into({g, k == 0 ? 0.f : 1.f}, product);
    }
  }

  const PowerSGDOptions options_;
  Generator random_;  // stands at the same place on all ranks
  std::map<int, BucketState> states_;
};

}  // namespace

std::unique_ptr<CommHook> power_sgd_hook(const PowerSGDOptions& o) {
  check(o.matrix_approximation_rank >= 1, "[power_sgd_hook] matrix_approximation_rank is ", o.matrix_approximation_rank,
        ", and has to be 1 or more");
  check(o.start_powerSGD_iter >= 0, "[power_sgd_hook] start_powerSGD_iter is ", o.start_powerSGD_iter);
  check(o.min_compression_rate >= 0, "[power_sgd_hook] min_compression_rate is ", o.min_compression_rate);
  return std::make_unique<PowerSGD>(o);
}

}  // namespace tandem
