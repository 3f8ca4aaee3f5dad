#include <tandem/core/context.h>
#include <tandem/core/parallel_for.h>

#include <algorithm>
#include <exception>
#include <mutex>
#include <thread>
#include <vector>

#ifdef _OPENMP
#  include <omp.h>
#endif

namespace tandem {

void set_num_threads(int n) {
  check(n >= 1, "set_num_threads: at least 1, got ", n);
  context().threads = n;
#ifdef _OPENMP
  omp_set_num_threads(n);  // oneDNN asks OpenMP, whose setting is this thread's too
#endif
}

int num_threads() {
  if (int n = context().threads) return n;
#ifdef _OPENMP
  return omp_get_max_threads();
#else
  return std::max(1, int(std::thread::hardware_concurrency()));
#endif
}

void rest_threads() {
#ifdef _OPENMP
  omp_pause_resource(omp_pause_soft, omp_get_initial_device());
#endif
}

namespace {

// The k-th of `parts` ranges: cut at multiples of 16 elements where the ranges are long enough for vectors to matter.
struct Cut {
  int64_t n, step;
  Cut(int64_t count, int64_t parts) : n(count), step((count + parts - 1) / parts) {
    if (n >= 64 * parts) step = (step + 15) / 16 * 16;
  }
  int64_t begin(int64_t k) const { return std::min(n, k * step); }
};

// Keeps the first exception of a parallel region: none may leave it by itself.
class FirstError {
 public:
  template <class F>
  void run(F&& f) {
    try {
      f();
    } catch (...) {
      std::lock_guard l(m_);
      if (!error_) error_ = std::current_exception();
    }
  }
  void rethrow() const {
    if (error_) std::rethrow_exception(error_);
  }

 private:
  std::mutex m_;
  std::exception_ptr error_;
};

}  // namespace

void detail::parallel_for(int64_t n, int64_t grain, void (*f)(const void*, int64_t, int64_t), const void* closure) {
  if (n <= 0) return;
  int64_t threads = std::min<int64_t>(num_threads(), (n + grain - 1) / std::max<int64_t>(grain, 1));
  if (n <= grain || threads <= 1) return f(closure, 0, n);
  Cut cut(n, threads);
  FirstError error;
#ifdef _OPENMP
#  pragma omp parallel num_threads(int(threads))
  {
    // The team may be smaller than asked for (nested regions): each member takes every team-th part.
    for (int64_t k = omp_get_thread_num(); k < threads; k += omp_get_num_threads())
      if (cut.begin(k) < cut.begin(k + 1)) error.run([&] { f(closure, cut.begin(k), cut.begin(k + 1)); });
  }
#else
  std::vector<std::thread> team;
  for (int64_t k = 1; k < threads; ++k)
    if (cut.begin(k) < cut.begin(k + 1))
      team.emplace_back([&, k] { error.run([&] { f(closure, cut.begin(k), cut.begin(k + 1)); }); });
  error.run([&] { f(closure, cut.begin(0), cut.begin(1)); });
  for (auto& t : team) t.join();
#endif
  error.rethrow();
}

}  // namespace tandem
