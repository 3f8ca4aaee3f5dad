// The floor under a step: the Net's convolutions and linears as single oneDNN primitives, forward and gradients, with
// the weight reorders between what a framework keeps and what the primitives like best. For oneDNN 2.x and 3.x.
// usage: onednn-floor [--bf16] [--batch N] [--json]
#include <algorithm>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <dnnl.hpp>
#include <functional>
#include <string>

using dnnl::memory;
using dt = memory::data_type;
using tag = memory::format_tag;

namespace {

dnnl::engine engine(dnnl::engine::kind::cpu, 0);
dnnl::stream stream(engine);
bool quiet = false;
double total_ms = 0;

// A primitive's description from its arguments: 2.x wraps most of them in an operation descriptor.
template <class Primitive, class... Args>
auto describe(const Args&... args) {
#if DNNL_VERSION_MAJOR >= 3
  return typename Primitive::primitive_desc(engine, args...);
#else
  return typename Primitive::primitive_desc(typename Primitive::desc(args...), engine);
#endif
}
template <class Primitive, class Hint, class... Args>
auto describe_backward(const Hint& hint, const Args&... args) {
#if DNNL_VERSION_MAJOR >= 3
  return typename Primitive::primitive_desc(engine, args..., hint);
#else
  return typename Primitive::primitive_desc(typename Primitive::desc(args...), engine, hint);
#endif
}

double best_ms(const std::function<void()>& f) {
  using Clock = std::chrono::steady_clock;
  double best = 1e9;
  for (int i = 0; i < 15; ++i) {
    auto start = Clock::now();
    f();
    stream.wait();
    best = std::min(best, std::chrono::duration<double, std::milli>(Clock::now() - start).count());
  }
  return best;
}

memory zeros(const memory::desc& d) {
  memory m(d, engine);
  std::memset(m.get_data_handle(), 0, d.get_size());
  return m;
}

void row(const std::string& name, double ms, double gflop) {
  if (!quiet) std::printf("%-44s %7.2f ms %7.0f GFLOP/s\n", name.c_str(), ms, gflop / ms * 1e3);
  total_ms += ms;
}

void reorder(const memory::desc& from, const memory::desc& to) {
  if (from == to) return;
  memory a = zeros(from), b = zeros(to);
  dnnl::reorder r(a, b);
  row("  weight reorder", best_ms([&] { r.execute(stream, a, b); }), 0);
}

// 3x3, stride 1, padding 1, on images of h x h, channels-last.
void convolution(const std::string& name, int n, int ci, int co, int h, dt type, bool want_data_gradient) {
  const memory::dims xs{n, ci, h, h}, ws{co, ci, 3, 3}, ys{n, co, h, h}, bs{co}, stride{1, 1}, pad{1, 1};
  const memory::desc x(xs, type, tag::nhwc), w(ws, type, tag::any), y(ys, type, tag::nhwc), b(bs, type, tag::x);
  const memory::desc kept_w(ws, dt::f32, tag::oihw), gw(ws, dt::f32, tag::any), gb(bs, dt::f32, tag::x);
  const double gflop = 2e-9 * n * ci * co * h * h * 9;
  const auto direct = dnnl::algorithm::convolution_direct;

  auto fwd =
      describe<dnnl::convolution_forward>(dnnl::prop_kind::forward_training, direct, x, w, b, y, stride, pad, pad);
  memory mx = zeros(x), my = zeros(y), mw = zeros(fwd.weights_desc()), mb = zeros(b);
  dnnl::convolution_forward run_forward(fwd);
  row(name + " forward " + fwd.impl_info_str(), best_ms([&] {
        run_forward.execute(stream,
                            {{DNNL_ARG_SRC, mx}, {DNNL_ARG_WEIGHTS, mw}, {DNNL_ARG_BIAS, mb}, {DNNL_ARG_DST, my}});
      }),
      gflop);
  reorder(kept_w, fwd.weights_desc());

  if (want_data_gradient) {
    auto bwd = describe_backward<dnnl::convolution_backward_data>(fwd, direct, x, w, y, stride, pad, pad);
    memory mwd = zeros(bwd.weights_desc());
    dnnl::convolution_backward_data run_data(bwd);
    row(name + " data gradient " + bwd.impl_info_str(), best_ms([&] {
          run_data.execute(stream, {{DNNL_ARG_DIFF_DST, my}, {DNNL_ARG_WEIGHTS, mwd}, {DNNL_ARG_DIFF_SRC, mx}});
        }),
        gflop);
    reorder(kept_w, bwd.weights_desc());
  }

  auto bww = describe_backward<dnnl::convolution_backward_weights>(fwd, direct, x, gw, gb, y, stride, pad, pad);
  memory mgw = zeros(bww.diff_weights_desc()), mgb = zeros(gb);
  dnnl::convolution_backward_weights run_weights(bww);
  row(name + " weight gradient " + bww.impl_info_str(), best_ms([&] {
        run_weights.execute(
            stream,
            {{DNNL_ARG_DIFF_DST, my}, {DNNL_ARG_SRC, mx}, {DNNL_ARG_DIFF_WEIGHTS, mgw}, {DNNL_ARG_DIFF_BIAS, mgb}});
      }),
      gflop);
  reorder(bww.diff_weights_desc(), kept_w);
}

// c = a b, [m,k] x [k,n], with the weights as they are kept: a free layout gains less than its reorder costs.
void product(const std::string& name, const memory::desc& a, const memory::desc& b, const memory::desc& c) {
  auto p = describe<dnnl::matmul>(a, b, c);
  memory x = zeros(a), y = zeros(p.weights_desc()), z = zeros(c);
#if DNNL_VERSION_MAJOR >= 3
  const auto da = a.get_dims(), db = b.get_dims();
#else
  const auto da = a.dims(), db = b.dims();
#endif
  dnnl::matmul run(p);
  row(name + " " + p.impl_info_str(), best_ms([&] {
        run.execute(stream, {{DNNL_ARG_SRC, x}, {DNNL_ARG_WEIGHTS, y}, {DNNL_ARG_DST, z}});
      }),
      2e-9 * da[0] * da[1] * db[1]);
}

void linear(const std::string& name, int m, int k, int n, dt type) {
  product(name + " forward", {{m, k}, type, tag::ab}, {{k, n}, type, tag::ba}, {{m, n}, type, tag::ab});
  product(name + " data gradient", {{m, n}, type, tag::ab}, {{n, k}, type, tag::ab}, {{m, k}, type, tag::ab});
  product(name + " weight gradient", {{n, m}, type, tag::ba}, {{m, k}, type, tag::ab}, {{n, k}, dt::f32, tag::ab});
}

}  // namespace

int main(int argc, char** argv) {
  dt type = dt::f32;
  int batch = 128;
  for (int i = 1; i < argc; ++i) {
    if (!std::strcmp(argv[i], "--bf16")) type = dt::bf16;
    if (!std::strcmp(argv[i], "--json")) quiet = true;
    if (!std::strcmp(argv[i], "--batch") && i + 1 < argc) batch = std::atoi(argv[++i]);
  }
  const auto* v = dnnl_version();
  if (!quiet)
    std::printf("oneDNN %d.%d.%d, %s, batch %d\n", v->major, v->minor, v->patch, type == dt::f32 ? "f32" : "bf16",
                batch);
  convolution("conv1 3-64 32x32", batch, 3, 64, 32, type, false);
  convolution("conv2 64-128 16x16", batch, 64, 128, 16, type, true);
  linear("fc1 8192-1024", batch, 8192, 1024, type);
  linear("fc2 1024-10", batch, 1024, 10, type);
  if (quiet)
    std::printf("{\"version\": \"%d.%d.%d\", \"images_s\": %.1f}\n", v->major, v->minor, v->patch,
                batch / total_ms * 1e3);
  else
    std::printf("sum %.1f ms = %.0f images/s\n", total_ms, batch / total_ms * 1e3);
}
