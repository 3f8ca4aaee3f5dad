// A row's loss is the sum over its classes of q_j * -log p_j, p being the softmax; its gradient is (sum of q) * p_j -
// q_j. Goals say what q is: of class indices, share * w_j, and `hit` more at the target; of probabilities, those,
// smoothed and weighted. One pass writes the gradients and the rows' losses. Where rows are few one block does it all,
// the total included.
#include <tandem/cuda/range_check.h>
#include <tandem/cuda/reduce_blocks.h>
#include <tandem/cuda/softmax_row.h>
#include <tandem/ops/cross_entropy.h>

namespace tandem::cuda_impl {
namespace {

template <class A>
struct ClassGoal {
  const int64_t* target;
  const A* w;  // per class, or null
  RangeCheck in_range;
  int64_t ignore_index;
  A kept, share;

  struct Row {
    int64_t k;
    const A* w;
    A hit, share;
    __device__ bool spread() const { return share > A(0); }
    __device__ A operator()(int64_t j) const {
      const A everywhere = share > A(0) ? (w ? share * w[j] : share) : A(0);
      return j == k ? everywhere + hit : everywhere;
    }
  };
  __device__ bool counts(int64_t row) const { return target[row] != ignore_index && in_range(target[row], row); }
  /// What the row adds to a mean's divisor.
  __device__ A weight(int64_t row) const { return !counts(row) ? A(0) : w ? w[target[row]] : A(1); }
  __device__ Row row(int64_t row, int64_t) const {
    const int64_t k = target[row];
    return {k, w, w ? kept * w[k] : kept, share};
  }
};

template <class T>
struct ProbabilityGoal {
  using A = Compute<T>;
  const T* target;
  const A* w;
  A kept, share;

  struct Row {
    static constexpr int64_t k = 0;
    static constexpr A hit = 0;
    const T* p;
    const A* w;
    A kept, share;
    __device__ bool spread() const { return true; }
    __device__ A operator()(int64_t j) const {
      const A q = kept * A(p[j]) + share;
      return w ? q * w[j] : q;
    }
  };
  __device__ bool counts(int64_t) const { return true; }
  __device__ A weight(int64_t) const { return A(1); }
  __device__ Row row(int64_t row, int64_t c) const { return {target + row * c, w, kept, share}; }
};

template <class A>
struct Pair {
  A loss, weight;
};
template <class A>
struct SumPairs {
  using Acc = Pair<A>;
  __device__ static Acc identity() { return {A(0), A(0)}; }
  __device__ static Acc combine(Acc a, Acc b) { return {a.loss + b.loss, a.weight + b.weight}; }
};

// The loss of the team's row; its gradient times `scale` goes to dx, unless that is null.
template <class Team, class T, class Goal>
__device__ Compute<T> row_loss(const Team& team, const T* x, T* dx, const Goal& goal, Compute<T> scale) {
  using A = Compute<T>;
  if (!goal.counts(team.row)) {
    if (dx) team.write(dx + team.first, false, [](int64_t) { return A(0); });
    return A(0);
  }
  const T* row = x + team.first;
  const Exponentials<A> e = sum_exponentials(team, row);
  const A log_sum = std::log(e.sum);
  const auto q = goal.row(team.row, team.n);
  Pair<A> sums{};
  if (!q.spread()) {
    sums = {q.hit * (log_sum - (A(row[q.k]) - e.top)), q.hit};
  } else {
    team.each(
        [&](A v, int64_t j) {
          sums.loss += q(j) * (log_sum - (v - e.top));
          sums.weight += q(j);
        },
        row);
    sums = team.template reduce<SumPairs<A>>(sums);
  }
  if (dx) {
    const A of_exp = scale * sums.weight / e.sum;
    team.write(
        dx + team.first, false, [=](A v, int64_t j) { return std::exp(v - e.top) * of_exp - scale * q(j); }, row);
  }
  return sums.loss;
}

constexpr int64_t kFewRows = 256, kFewClasses = 256;

// One block, each of its warps with several rows.
template <class T, class Goal>
__global__ void few_rows_kernel(T* loss, T* dx, const T* x, Rows rows, Goal goal, Reduction reduction) {
  using A = Compute<T>;
  using Team = RowTeam<false>;
  A divisor = 1;
  if (reduction == Reduction::mean) {
    A weight = 0;
    for (int64_t i = threadIdx.x; i < rows.outer; i += blockDim.x) weight += goal.weight(i);
    divisor = block_sum(weight);
  }
  A total = 0;
  for_each_row<Team>(rows, [&](const Team& team) {
    const A l = row_loss(team, x, dx, goal, A(1) / divisor);
    if (team.lane != 0) return;
    if (reduction == Reduction::none)
      loss[team.row] = T(l);
    else
      total += l;
  });
  if (reduction == Reduction::none) return;
  total = block_sum(total);
  if (threadIdx.x == 0) *loss = T(total / divisor);
}

// What losses are divided by, on the device or known to the host.
template <class A>
struct Divisor {
  const A* value;
  A known;
  __device__ A operator()() const { return value ? *value : known; }
};

template <class Team, class T, class Loss, class Goal>
__global__ void rows_kernel(Loss* loss, T* dx, const T* x, Rows rows, Goal goal, Divisor<Compute<T>> divisor) {
  using A = Compute<T>;
  const A scale = A(1) / divisor();
  for_each_row<Team>(rows, [&](const Team& team) {
    const A l = row_loss(team, x, dx, goal, scale);
    if (team.lane == 0) loss[team.row] = Loss(l);
  });
}

template <class T>
struct StoreLoss {
  T* loss;
  Divisor<Compute<T>> divisor;
  __device__ void operator()(int64_t, Compute<T> sum) const { *loss = T(sum / divisor()); }
};

Tensor as_column(const Tensor& x, int64_t n) { return x.alias({1, n, 1}, {n, 1, 1}, x.impl()->offset); }

// A mean's divisor: the weights of the rows that count.
template <class A>
struct TargetWeight {
  ClassGoal<A> goal;
  __device__ A operator()(int64_t, int64_t row, int64_t) const { return goal.weight(row); }
};
template <class A>
Tensor total_weight(const ClassGoal<A>& goal, const Tensor& target) {
  Tensor total = empty({1}, {.dtype = dtype_of<A>, .device = target.device()});
  reduce_blocks<Sum<A>, int64_t>(as_column(target, target.numel()), TargetWeight<A>{goal},
                                 StoreSum<A>{total.ptr<A>(), false});
  return total;
}
template <class T>
Tensor total_weight(const ProbabilityGoal<T>&, const Tensor&) {
  return {};  // one for each row
}

template <class T, class Goal>
void forward(Tensor& loss, Tensor& dx, const Tensor& x, const Tensor& target, const Goal& goal, Reduction reduction) {
  using A = Compute<T>;
  const int64_t m = x.size(0), c = x.size(1);
  On on(x);
  T* gradient = dx ? dx.ptr<T>() : nullptr;
  const Rows rows{m, c, 1, rows_are_packed(c, x.ptr<T>()) && (!gradient || rows_are_packed(c, gradient))};
  if (m <= kFewRows && c <= kFewClasses)
    return launch(on, {dim3(1), dim3(unsigned(kWarp * std::clamp<int64_t>(m, 1, 32)))}, few_rows_kernel<T, Goal>,
                  loss.ptr<T>(), gradient, x.ptr<T>(), rows, goal, reduction);

  const bool mean = reduction == Reduction::mean, none = reduction == Reduction::none;
  const Tensor total = mean ? total_weight(goal, target) : Tensor();
  const Divisor<A> divisor{total ? total.ptr<A>() : nullptr, mean ? A(m) : A(1)};
  const Tensor losses = none ? Tensor() : empty({m}, {.dtype = dtype_of<A>, .device = x.device()});
  with_row_team(rows, [&](auto team, Grid grid) {
    using Team = typename decltype(team)::type;
    if (none)
      launch(on, grid, rows_kernel<Team, T, T, Goal>, loss.ptr<T>(), gradient, x.ptr<T>(), rows, goal, divisor);
    else
      launch(on, grid, rows_kernel<Team, T, A, Goal>, losses.ptr<A>(), gradient, x.ptr<T>(), rows, goal, divisor);
  });
  if (!none) reduce_blocks<Sum<A>, A>(as_column(losses, m), Value<A>{}, StoreLoss<T>{loss.ptr<T>(), divisor});
}

// A weight per class as it is computed with.
template <class A>
Tensor weights(const Tensor& weight) {
  if (!weight || weight.dtype() == dtype_of<A>) return weight;
  return copy_of(weight, {.dtype = dtype_of<A>, .device = weight.device()});
}
template <class A>
const A* pointer(const Tensor& weight) {
  return weight ? weight.ptr<A>() : nullptr;
}

void cross_entropy_forward_cuda(Tensor& loss, Tensor& dx, const Tensor& x, const Tensor& target, const Tensor& weight,
                                const CrossEntropyRule& rule) {
  dispatch_float(x.dtype(), [&](auto t) {
    using T = decltype(t);
    using A = Compute<T>;
    const int64_t c = x.size(1);
    const Tensor w = weights<A>(weight);
    const ClassGoal<A> goal{target.ptr<int64_t>(),
                            pointer<A>(w),
                            RangeCheck(x.device(), RangeOf::classes, c),
                            rule.ignore_index,
                            A(1 - rule.label_smoothing),
                            A(rule.label_smoothing / double(c))};
    forward<T>(loss, dx, x, target, goal, rule.reduction);
  });
}

void cross_entropy_of_probabilities_forward_cuda(Tensor& loss, Tensor& dx, const Tensor& x, const Tensor& target,
                                                 const Tensor& weight, const CrossEntropyRule& rule) {
  dispatch_float(x.dtype(), [&](auto t) {
    using T = decltype(t);
    using A = Compute<T>;
    const Tensor w = weights<A>(weight);
    const ProbabilityGoal<T> goal{target.ptr<T>(), pointer<A>(w), A(1 - rule.label_smoothing),
                                  A(rule.label_smoothing / double(x.size(1)))};
    forward<T>(loss, dx, x, target, goal, rule.reduction);
  });
}

template <class T>
struct ScaleBy {
  const T* factor;
  __device__ Compute<T> operator()(Compute<T> v) const { return Compute<T>(*factor) * v; }
};

template <class Team, class T>
__global__ void scale_rows_kernel(T* gx, bool add, const T* gy, const T* dx, Rows rows) {
  for_each_row<Team>(rows, [&](const Team& team) {
    const auto upstream = Compute<T>(gy[team.row]);
    team.write(
        gx + team.first, add, [=](Compute<T> v, int64_t) { return upstream * v; }, dx + team.first);
  });
}

void cross_entropy_backward_data_cuda(Out gx, const Tensor& gy, const Tensor& dx) {
  On on(dx);
  dispatch_float(dx.dtype(), [&](auto t) {
    using T = decltype(t);
    if (gy.numel() == 1)
      return pointwise(on, ScaleBy<T>{gy.ptr<T>()}, gx.beta != 0, dx.numel(), gx.t.ptr<T>(), dx.ptr<T>());
    const int64_t c = dx.size(1);
    const Rows rows{dx.size(0), c, 1, rows_are_packed(c, gx.t.ptr<T>(), dx.ptr<T>())};
    with_row_team(rows, [&](auto team, Grid grid) {
      launch(on, grid, scale_rows_kernel<typename decltype(team)::type, T>, gx.t.ptr<T>(), gx.beta != 0, gy.ptr<T>(),
             dx.ptr<T>(), rows);
    });
  });
}

template <class Team, class T>
__global__ void target_gradient_kernel(T* g_target, bool add, const T* gy, bool each, const T* x, const Compute<T>* w,
                                       Compute<T> scale, Rows rows) {
  using A = Compute<T>;
  for_each_row<Team>(rows, [&](const Team& team) {
    const T* row = x + team.first;
    const Exponentials<A> e = sum_exponentials(team, row);
    const A log_sum = std::log(e.sum), upstream = scale * A(gy[each ? team.row : 0]);
    team.write(
        g_target + team.first, add,
        [=](A v, int64_t j) { return (w ? upstream * w[j] : upstream) * (log_sum - (v - e.top)); }, row);
  });
}

void cross_entropy_of_probabilities_backward_target_cuda(Out g_target, const Tensor& gy, const Tensor& x,
                                                         const Tensor& weight, const CrossEntropyRule& rule) {
  if (x.numel() == 0) return;
  On on(x);
  dispatch_float(x.dtype(), [&](auto t) {
    using T = decltype(t);
    using A = Compute<T>;
    const int64_t m = x.size(0), c = x.size(1);
    const A scale = A((1 - rule.label_smoothing) * (rule.reduction == Reduction::mean ? 1 / double(m) : 1));
    const Tensor w = weights<A>(weight);
    const Rows rows{m, c, 1, rows_are_packed(c, g_target.t.ptr<T>(), x.ptr<T>())};
    with_row_team(rows, [&](auto team, Grid grid) {
      launch(on, grid, target_gradient_kernel<typename decltype(team)::type, T>, g_target.t.ptr<T>(),
             g_target.beta != 0, gy.ptr<T>(), rule.reduction == Reduction::none, x.ptr<T>(), pointer<A>(w), scale,
             rows);
    });
  });
}

TANDEM_KERNEL(cross_entropy_forward, cuda, cross_entropy_forward_cuda);
TANDEM_KERNEL(cross_entropy_of_probabilities_forward, cuda, cross_entropy_of_probabilities_forward_cuda);
TANDEM_KERNEL(cross_entropy_backward_data, cuda, cross_entropy_backward_data_cuda);
TANDEM_KERNEL(cross_entropy_of_probabilities_backward_target, cuda,
              cross_entropy_of_probabilities_backward_target_cuda);

}  // namespace
}  // namespace tandem::cuda_impl
