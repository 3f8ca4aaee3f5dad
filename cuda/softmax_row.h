/// Not installed. The sum of a row's exponentials, safe for large values, in one pass.
#pragma once
#include <tandem/cuda/rows.h>

#include <cmath>

namespace tandem::cuda_impl {

/// Of some elements: the largest, and the sum of e^(x - top).
template <class A>
struct Exponentials {
  A top, sum;
};

template <class A>
struct SumExponentials {
  using Acc = Exponentials<A>;
  __device__ static Acc identity() { return {Max<A>::identity(), A(0)}; }
  __device__ static Acc combine(Acc a, Acc b) {
    const A top = Max<A>::combine(a.top, b.top);
    return {top, a.sum * scale(a.top, top) + b.sum * scale(b.top, top)};
  }
  // Where all elements are -inf so far each counts as 1; the next that is not brings their sum to 0. An infinite v
  // makes the sum NaN, as subtracting the row's largest does.
  __device__ static void add(Acc& a, A v) {
    if (v > a.top) {
      a.sum = a.sum * std::exp(a.top - v) + (v - v) + A(1);
      a.top = v;
    } else {
      a.sum += scale(v, a.top);
    }
  }

 private:
  __device__ static A scale(A v, A top) { return v == top ? A(1) : std::exp(v - top); }
};

/// Of the team's row x.
template <class Team, class T>
__device__ Exponentials<Compute<T>> sum_exponentials(const Team& team, const T* x) {
  using Op = SumExponentials<Compute<T>>;
  auto sum = Op::identity();
  team.each([&](Compute<T> v, int64_t) { Op::add(sum, v); }, x);
  return team.template reduce<Op>(sum);
}

}  // namespace tandem::cuda_impl
