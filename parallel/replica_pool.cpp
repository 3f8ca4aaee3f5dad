#include <tandem/core/parallel_for.h>
#include <tandem/parallel/replica_pool.h>

namespace tandem {
namespace {

std::string name_of(const Replica& r) { return message("replica ", r.index, " on ", r.device); }

// Throws the error again, named, with the type that it has in this library's hierarchy; what it was is nested.
[[noreturn]] void rethrow_named(const std::exception_ptr& error, const Replica& r) {
  const std::string name = message("[DataParallel] ", name_of(r), ": ");
  try {
    std::rethrow_exception(error);
  } catch (const ShapeError& e) {
    std::throw_with_nested(ShapeError(name + e.what()));
  } catch (const DtypeError& e) {
    std::throw_with_nested(DtypeError(name + e.what()));
  } catch (const OutOfMemoryError& e) {
    std::throw_with_nested(OutOfMemoryError(name + e.what()));
  } catch (const DeviceError& e) {
    std::throw_with_nested(DeviceError(name + e.what()));
  } catch (const IoError& e) {
    std::throw_with_nested(IoError(name + e.what()));
  } catch (const CommError& e) {
    std::throw_with_nested(CommError(name + e.what(), e.rank));
  } catch (const std::exception& e) {
    std::throw_with_nested(Error(name + e.what()));
  } catch (...) {
    std::throw_with_nested(Error(name + "threw something that is no std::exception"));
  }
}

}  // namespace

ReplicaPool::ReplicaPool(const std::vector<Device>& devices, int threads, std::chrono::milliseconds timeout)
    : timeout_(timeout) {
  try {
    for (size_t r = 0; r < devices.size(); ++r)
      workers_.push_back(ReplicaWorker::start({.index = int(r), .device = devices[r]}, threads));
  } catch (...) {
    for (auto& w : workers_) w->stop();
    throw;
  }
}

ReplicaPool::~ReplicaPool() {
  for (auto& w : workers_) w->stop();
}

std::vector<const Replica*> ReplicaPool::replicas() const {
  std::vector<const Replica*> list;
  for (auto& w : workers_) list.push_back(&w->replica());
  return list;
}

void ReplicaPool::require_usable() const {
  check<CommError>(usable(), broken_, "; this wrapper can't be used any more");
}

void ReplicaPool::run(int count, const char* what, const std::function<void(int)>& task) {
  require_usable();
  for (int r = 0; r < count; ++r) workers_[size_t(r)]->post([task, r] { task(r); });
  rest_threads();
  const auto deadline = ReplicaWorker::Clock::now() + timeout_;
  std::string late;
  for (int r = 0; r < count; ++r) {
    ReplicaWorker& w = *workers_[size_t(r)];
    if (!w.wait_until(deadline)) late += (late.empty() ? "" : ", ") + name_of(w.replica());
  }
  if (!late.empty())
    broken_ = message("[DataParallel] ", late, ": no end of ", what, " within ", timeout_.count(), " ms");
  check<CommError>(usable(), broken_);
  std::exception_ptr first;
  const Replica* whose = nullptr;
  for (int r = 0; r < count; ++r) {
    std::exception_ptr error = workers_[size_t(r)]->take_error();
    if (!error || first) continue;
    first = std::move(error);
    whose = &workers_[size_t(r)]->replica();
  }
  if (first) rethrow_named(first, *whose);
}

}  // namespace tandem
