#include "tests/support/op_case.h"
#include "tests/support/guard_pool.h"
#include "tests/support/test_device.h"

#include <tandem/core/copy.h>
#include <tandem/core/generator.h>
#include <tandem/core/parallel_for.h>

#include <doctest/doctest.h>

#include <cmath>
#include <cstdlib>
#include <cstring>

namespace tandem::test {

uint64_t test_seed() {
  static const uint64_t seed = [] {
    const char* e = std::getenv("TANDEM_TEST_SEED");
    return e ? std::strtoull(e, nullptr, 10) : 20260101ull;
  }();
  return seed;
}

namespace {

// A view of the same values whose strides are neither dense layout: every second element of a larger tensor.
Tensor strided(const Tensor& x) {
  if (x.dim() == 0) return x;
  Dims wide = x.shape();
  wide[x.dim() - 1] = 2 * wide[x.dim() - 1] + 1;
  Tensor big = zeros(wide, {.dtype = x.dtype(), .device = x.device()});
  Dims strides = big.strides();
  strides[x.dim() - 1] = 2;
  Tensor y = big.alias(x.shape(), strides, 1);
  copy_into({y, 0}, x);
  return y;
}

std::vector<double> draw(const Input& in, Generator& g) {
  if (!in.values.empty()) return in.values;
  std::vector<double> v(static_cast<size_t>(in.shape.numel()));
  for (double& x : v) {
    x = in.low + (in.high - in.low) * g.uniform_double();
    if (!is_floating(in.dtype)) x = std::floor(x);
    if (in.gap > 0 && std::abs(x - in.kink) < in.gap) x = in.kink + (x < in.kink ? -in.gap : in.gap);
  }
  return v;
}

enum class Form { row_major, channels_last, strided };

struct Run {
  Tensor y;
  std::vector<Tensor> inputs;  // those that require grad hold gradients
};

class Checker {
 public:
  explicit Checker(const OpCase& c) : c_(c) {
    Generator g(test_seed());
    for (auto& in : c.inputs) values_.push_back(draw(in, g));
  }

  void all() {
    INFO("op case ", c_.name, ", seed ", test_seed());
    // What each dtype is compared with is the f64 result on inputs rounded to that dtype.
    Run exact = run(Dtype::f64, Dtype::f64);
    upstream_values_ = exact_upstream(exact.y);
    exact = run(Dtype::f64, Dtype::f64, Form::row_major, 1, true);
    if (c_.reference) {
      auto want = c_.reference(values_);
      compare("forward against the reference", exact.y.to_vector<double>(), want, 1e-12, 1e-10);
    }
    if (is_floating(exact.y.dtype())) check_gradients(exact);
    if (!on_cpu()) against_the_cpu(exact);
    against_f64(Dtype::f32, c_.tolerance, 10 * c_.tolerance, 0);
    if (c_.half) {
      against_f64(Dtype::f16, 0, 0, c_.half_tolerance);
      against_f64(Dtype::bf16, 0, 0, c_.half_tolerance * 4);
    }
    invariance();
    upstream_forms();
    if (on_cpu()) guarded();  // elsewhere it is the simulator that watches memory
    accumulation();
  }

 private:
  Tensor input(size_t i, Dtype t, Dtype rounded_to, Form form) const {
    const Input& in = c_.inputs[i];
    Dtype own = is_floating(in.dtype) ? t : in.dtype;
    Tensor x = from_vector(values_[i], in.shape);
    if (is_floating(in.dtype)) x = copy_of(x, {.dtype = rounded_to});
    x = copy_of(x, {.dtype = own, .layout = form == Form::channels_last ? Layout::channels_last : Layout::row_major});
    if (form == Form::strided) x = strided(x);
    if (in.grad && is_floating(own)) x.set_requires_grad();
    return x;
  }

  std::vector<double> exact_upstream(const Tensor& y) const {
    Generator g(test_seed() + 1);
    std::vector<double> v(static_cast<size_t>(y.numel()));
    for (double& x : v) x = double(bf16(float(g.uniform_double() * 2 - 1)));  // the same in every floating type
    return v;
  }

  Run forward(Dtype t, Dtype rounded_to, Form form) const {
    Run r;
    for (size_t i = 0; i < values_.size(); ++i) r.inputs.push_back(input(i, t, rounded_to, form));
    r.y = c_.run(r.inputs);
    return r;
  }
  Run run(Dtype t, Dtype rounded_to, Form form = Form::row_major, int threads = 1, bool with_backward = false) const {
    set_num_threads(threads);
    Run r = forward(t, rounded_to, form);
    if (with_backward && r.y.requires_grad()) r.y.backward(upstream(r.y));
    set_num_threads(1);
    return r;
  }
  // From this gradient, whatever its strides.
  Run run_from(Dtype t, const Tensor& upstream) const {
    Run r = forward(t, t, Form::row_major);
    r.y.backward(upstream);
    return r;
  }
  Tensor upstream(const Tensor& y) const {
    return copy_of(from_vector(upstream_values_, y.shape()), {.dtype = y.dtype(), .layout = y.layout()});
  }

  // |a-b| <= absolute + relative*|b|, or NaN for NaN.
  static void compare(const std::string& what, const std::vector<double>& a, const std::vector<double>& b,
                      double absolute, double relative) {
    INFO(what);
    REQUIRE(a.size() == b.size());
    double worst = 0;
    size_t at = 0;
    for (size_t i = 0; i < a.size(); ++i) {
      if ((std::isnan(a[i]) && std::isnan(b[i])) || a[i] == b[i]) continue;
      double excess = std::abs(a[i] - b[i]) - relative * std::abs(b[i]);
      if (!(excess <= worst)) {
        worst = std::isnan(excess) ? INFINITY : excess;
        at = i;
      }
    }
    if (worst > absolute) {
      INFO("element ", at, ": ", a[at], " against ", b[at]);
      CHECK(worst <= absolute);
    }
    CHECK(true);
  }
  static double largest(const std::vector<double>& v) {
    double m = 0;
    for (double x : v)
      if (std::isfinite(x)) m = std::max(m, std::abs(x));
    return m;
  }

  // dot(op(x), upstream) moved along each input element, against the recorded gradient.
  void check_gradients(const Run& exact) const {
    auto objective = [&](const std::vector<std::vector<double>>& values) {
      NoGradGuard no_grad;
      std::vector<Tensor> in;
      for (size_t i = 0; i < values.size(); ++i) {
        Dtype own = is_floating(c_.inputs[i].dtype) ? Dtype::f64 : c_.inputs[i].dtype;
        in.push_back(copy_of(from_vector(values[i], c_.inputs[i].shape), {.dtype = own}));
      }
      auto y = c_.run(in).to_vector<double>();
      double s = 0;
      for (size_t k = 0; k < y.size(); ++k) s += y[k] * upstream_values_[k];
      return s;
    };
    for (size_t i = 0; i < values_.size(); ++i) {
      if (!exact.inputs[i].requires_grad()) continue;
      INFO("gradient of input ", i);
      Tensor grad = exact.inputs[i].grad();
      REQUIRE(grad.defined());
      auto g = grad.to_vector<double>();
      size_t step = 1 + g.size() / 40;  // at most some 40 elements of each input
      for (size_t k = 0; k < g.size(); k += step) {
        auto moved = values_;
        const double h = 1e-5 * std::max(1.0, std::abs(values_[i][k]));
        moved[i][k] = values_[i][k] + h;
        double up = objective(moved);
        moved[i][k] = values_[i][k] - h;
        double down = objective(moved);
        double numeric = (up - down) / (2 * h);
        INFO("element ", k, ": recorded ", g[k], ", central difference ", numeric);
        CHECK(std::abs(g[k] - numeric) <= 1e-6 + 1e-6 * std::abs(numeric));
      }
    }
  }

  void against_f64(Dtype t, double absolute, double relative, double of_largest) const {
    INFO(to_string(t), " against f64");
    Run want = run(Dtype::f64, t, Form::row_major, 1, true), got = run(t, t, Form::row_major, 1, true);
    auto one = [&](const std::string& what, const Tensor& a, const Tensor& b) {
      auto x = a.to_vector<double>(), y = b.to_vector<double>();
      compare(what, x, y, absolute + of_largest * largest(y), relative);
    };
    one("forward", got.y, want.y);
    if (is_floating(want.y.dtype())) CHECK(got.y.dtype() == t);
    for (size_t i = 0; i < want.inputs.size(); ++i)
      if (want.inputs[i].requires_grad())
        one("gradient of input " + std::to_string(i), got.inputs[i].grad(), want.inputs[i].grad());
  }

  void against_the_cpu(const Run& got) const {
    INFO("f64 against the CPU");
    DeviceGuard here(cpu());
    const Run want = run(Dtype::f64, Dtype::f64, Form::row_major, 1, true);
    compare("forward", got.y.to_vector<double>(), want.y.to_vector<double>(), 1e-12, 1e-10);
    for (size_t i = 0; i < want.inputs.size(); ++i)
      if (want.inputs[i].requires_grad())
        compare("gradient of input " + std::to_string(i), got.inputs[i].grad().to_vector<double>(),
                want.inputs[i].grad().to_vector<double>(), 1e-12, 1e-10);
  }

  void same(const std::string& what, const Run& a, const Run& b) const {
    INFO(what);
    auto one = [&](const std::string& which, const Tensor& x, const Tensor& y) {
      if (c_.library || !on_cpu())
        compare(which, x.to_vector<double>(), y.to_vector<double>(), c_.tolerance, 10 * c_.tolerance);
      else {
        INFO(which);
        CHECK(same_bits(x, y));
      }
    };
    one("forward", a.y, b.y);
    for (size_t i = 0; i < a.inputs.size(); ++i)
      if (a.inputs[i].requires_grad())
        one("gradient of input " + std::to_string(i), a.inputs[i].grad(), b.inputs[i].grad());
  }

  void invariance() const {
    for (Dtype t : {Dtype::f32, Dtype::f64}) {
      INFO(to_string(t));
      Run one = run(t, t, Form::row_major, 1, true);
      same("2 threads against 1", run(t, t, Form::row_major, 2, true), one);
      if (!c_.layouts) continue;
      same("channels-last against row-major", run(t, t, Form::channels_last, 1, true), one);
      same("strided against dense", run(t, t, Form::strided, 1, true), one);
    }
  }

  // An op gets its gradient as the op above leaves it: a part of something larger, another layout, one value expanded.
  void upstream_forms() const {
    for (Dtype t : {Dtype::f32, Dtype::f64}) {
      INFO(to_string(t));
      Run one = run(t, t, Form::row_major, 1, true);
      if (!one.y.requires_grad()) return;
      Tensor g = upstream(one.y);
      same("strided upstream gradient", run_from(t, strided(g)), one);
      const Layout other = g.layout() == Layout::row_major ? Layout::channels_last : Layout::row_major;
      same("upstream gradient in another layout", run_from(t, copy_of(g, {.dtype = t, .layout = other})), one);
      Dims none = g.shape();
      for (int d = 0; d < none.size(); ++d) none[d] = 0;
      Tensor expanded = full({}, 0.75, {.dtype = t}).alias(g.shape(), none, 0);
      same("expanded upstream gradient", run_from(t, expanded), run_from(t, full(g.shape(), 0.75, g.options())));
    }
  }

  void guarded() const {
    for (Dtype t : {Dtype::f32, Dtype::f64, Dtype::bf16}) {
      if (t == Dtype::bf16 && !c_.half) continue;
      for (Form f : {Form::row_major, Form::channels_last}) {
        if (f == Form::channels_last && !c_.layouts) continue;
        INFO("in guarded memory, ", to_string(t));
        Run plain = run(t, t, f, 2, true);
        GuardPool pool;
        {
          PoolGuard in_force(pool);
          Run r = run(t, t, f, 2, true);
          same("guarded memory against plain", r, plain);
          CHECK(pool.violations() == 0);
        }
        CHECK(pool.violations() == 0);
      }
    }
  }

  void accumulation() const {
    for (Dtype t : {Dtype::f32, Dtype::f64}) {
      Run once = run(t, t, Form::row_major, 1, true);
      if (!once.y.requires_grad()) return;
      set_num_threads(1);
      std::vector<Tensor> in;
      for (size_t i = 0; i < values_.size(); ++i) {
        in.push_back(input(i, t, t, Form::row_major));
        if (Leaf* l = in.back().leaf()) fill_into(l->ensure_window(), NAN);
      }
      auto backward_once = [&] {
        Tensor y = c_.run(in);
        y.backward(upstream(y));
      };
      backward_once();
      for (size_t i = 0; i < in.size(); ++i)
        if (in[i].requires_grad()) {
          INFO("beta 0 does not read, ", to_string(t), ", input ", i);
          compare("first gradient", in[i].grad().to_vector<double>(), once.inputs[i].grad().to_vector<double>(), 0, 0);
        }
      backward_once();
      for (size_t i = 0; i < in.size(); ++i)
        if (in[i].requires_grad()) {
          INFO("beta 1 adds, ", to_string(t), ", input ", i);
          auto twice = once.inputs[i].grad().to_vector<double>();
          for (double& v : twice) v *= 2;
          double eps = t == Dtype::f32 ? 1e-6 : 1e-14;
          compare("doubled", in[i].grad().to_vector<double>(), twice, eps * largest(twice), eps);
        }
    }
  }

  const OpCase& c_;
  std::vector<std::vector<double>> values_;
  std::vector<double> upstream_values_;
};

}  // namespace

void check_op(const OpCase& c) { Checker(c).all(); }

Tensor random_tensor(const Dims& shape, TensorOptions o, double low, double high) {
  static Generator g(test_seed() + 2);
  std::vector<double> v(static_cast<size_t>(shape.numel()));
  for (double& x : v) x = low + (high - low) * g.uniform_double();
  return copy_of(from_vector(v, shape), o);
}

double max_difference(const Tensor& a, const Tensor& b) {
  auto x = a.to_vector<double>(), y = b.to_vector<double>();
  if (x.size() != y.size()) return INFINITY;
  double d = 0;
  for (size_t i = 0; i < x.size(); ++i) {
    double e = std::abs(x[i] - y[i]);
    if (!(e <= d)) d = std::isnan(e) ? INFINITY : e;
  }
  return d;
}

bool same_bits(const Tensor& a, const Tensor& b) {
  if (!a.defined() || !b.defined() || !(a.shape() == b.shape()) || a.dtype() != b.dtype()) return false;
  auto on_host = [](const Tensor& t) { return copy_of(t, {.dtype = t.dtype(), .device = cpu()}); };
  Tensor x = on_host(a), y = on_host(b);
  return x.numel() == 0 || std::memcmp(x.raw(), y.raw(), size_t(x.numel()) * size_of(x.dtype())) == 0;
}

}  // namespace tandem::test
