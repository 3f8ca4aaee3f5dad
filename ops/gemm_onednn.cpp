#ifdef TANDEM_ONEDNN
#  include <tandem/core/parallel_for.h>
#  include <tandem/ops/gemm.h>
#  include <tandem/ops/onednn.h>

#  include <dnnl.hpp>

#  include <algorithm>

namespace tandem::detail {
namespace {

using dnnl::memory;

memory::desc describe(const MatrixRef<float>& r, int64_t rows, int64_t cols) {
  return {{rows, cols}, memory::data_type::f32, r.transposed ? memory::dims{1, r.stride} : memory::dims{r.stride, 1}};
}

class Plan {
 public:
  explicit Plan(const Product<float>& p) {
    auto& e = onednn_engine();
    memory::desc a = describe(p.a, p.m, p.k), b = describe(p.b, p.k, p.n);
    memory::desc c({p.m, p.n}, memory::data_type::f32, memory::dims{p.c_stride, 1});
    memory::desc bias;
    if (p.bias) bias = memory::desc({1, p.n}, memory::data_type::f32, memory::dims{p.n, 1});
    const auto attributes = onednn_attributes(p.add);
#  if DNNL_VERSION_MAJOR >= 3
    dnnl::matmul::primitive_desc pd(e, a, b, bias, c, attributes);
#  else
    dnnl::matmul::primitive_desc pd({a, b, bias, c}, attributes, e);
#  endif
    primitive_ = dnnl::matmul(pd);
    a_ = memory(a, e, nullptr);
    b_ = memory(b, e, nullptr);
    c_ = memory(c, e, nullptr);
    scratch_ = memory(pd.scratchpad_desc(), e, nullptr);
    arguments_ = {{DNNL_ARG_SRC, a_}, {DNNL_ARG_WEIGHTS, b_}, {DNNL_ARG_DST, c_}, {DNNL_ARG_SCRATCHPAD, scratch_}};
    if (p.bias) {
      bias_ = memory(bias, e, nullptr);
      arguments_.emplace(DNNL_ARG_BIAS, bias_);
    }
  }

  void run(const Product<float>& p) {
    lend(a_, p.a.data);
    lend(b_, p.b.data);
    lend(c_, p.c);
    if (p.bias) lend(bias_, p.bias);
    LentScratch scratch(scratch_, p.device);
    primitive_.execute(onednn_stream(), arguments_);
    onednn_stream().wait();
  }

 private:
  dnnl::matmul primitive_;
  memory a_, b_, c_, bias_, scratch_;
  std::unordered_map<int, memory> arguments_;
};

void run_plan(const Product<float>& p) {
  static thread_local PlanCache<Plan, 11> plans;
  with_onednn_errors([&] {
    plans
        .get({p.m, p.n, p.k, p.a.stride, p.a.transposed, p.b.stride, p.b.transposed, p.c_stride, p.bias != nullptr,
              p.add, num_threads()},
             [&] { return Plan(p); })
        .run(p);
  });
}

// Where c has few rows, oneDNN's AVX2 kernels read b in place. If b's rows are a multiple of 4096 bytes apart, what
// they read together falls into the same few cache sets, and they run at half their speed.
bool reads_b_badly(const Product<float>& p) {
  static const bool avx2 = [] {
    const auto isa = dnnl::get_effective_cpu_isa();
    return isa == dnnl::cpu_isa::avx2 || isa == dnnl::cpu_isa::avx2_vnni;
  }();
  return avx2 && !p.b.transposed && p.b.stride % 1024 == 0 && p.m >= 16 && p.m < 512 * num_threads();
}

// The product from copies of b's panels whose rows lie apart by a better number.
void run_by_panels(const Product<float>& p) {
  constexpr int64_t kRows = 1024, kCols = 512, kStride = kCols + 16;
  Tensor panel = empty({std::min(kRows, p.k), kStride}, {.device = p.device});
  float* to = panel.ptr<float>();
  for (int64_t col = 0; col < p.n; col += kCols)
    for (int64_t row = 0; row < p.k; row += kRows) {
      Product<float> part = p;
      part.n = std::min(kCols, p.n - col);
      part.k = std::min(kRows, p.k - row);
      part.a = p.a.cols_from(row);
      part.b = {to, kStride};
      part.c = p.c + col;
      part.bias = p.bias && row == 0 ? p.bias + col : nullptr;
      part.add = p.add || row > 0;
      const float* from = p.b.data + row * p.b.stride + col;
      const int64_t stride = p.b.stride, width = part.n;
      tandem::parallel_for(part.k, 64, [=](int64_t begin, int64_t end) {
        for (int64_t r = begin; r < end; ++r) std::copy_n(from + r * stride, width, to + r * kStride);
      });
      run_plan(part);
    }
}

}  // namespace

void gemm_onednn(const Product<float>& p) { reads_b_badly(p) ? run_by_panels(p) : run_plan(p); }

}  // namespace tandem::detail
#endif
