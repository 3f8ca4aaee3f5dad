/// Ranks of NCCL for tests, all of this process: a device, a stream and a communicator each.
#pragma once
#include <doctest/doctest.h>
#include <nccl.h>

#include <cstdlib>
#include <functional>
#include <memory>
#include <vector>

#include "typed_values.h"

namespace simgpu_test {

template <>
struct TypeOf<int32_t> {
  static constexpr auto nccl = ncclInt32;
};
template <>
struct TypeOf<uint8_t> {
  static constexpr auto nccl = ncclUint8;
};
template <>
struct TypeOf<int64_t> {
  static constexpr auto nccl = ncclInt64;
};

/// Four devices, unless the environment says how many: set before the simulator asks.
[[maybe_unused]] inline const int four_devices = ::setenv("SIMGPU_DEVICES", "4", 0);

struct Rank {
  int device;
  TestStream stream;
  ncclComm_t comm = nullptr;

  explicit Rank(int d) : device(d), stream(d) {}
  ~Rank() {
    if (comm) ncclCommDestroy(comm);
  }
  Rank(const Rank&) = delete;
  Rank& operator=(const Rank&) = delete;
};

class Ranks {
 public:
  explicit Ranks(int n) {
    std::vector<ncclComm_t> comms(static_cast<size_t>(n));
    REQUIRE(ncclCommInitAll(comms.data(), n, nullptr) == ncclSuccess);
    for (int r = 0; r < n; ++r) {
      ranks_.push_back(std::make_unique<Rank>(r));
      ranks_.back()->comm = comms[size_t(r)];
    }
    CHECK_CUDA(cudaSetDevice(0));
  }

  int size() const { return int(ranks_.size()); }
  Rank& operator[](int r) { return *ranks_[size_t(r)]; }

  /// f(rank) for each, in one group.
  template <class F>
  ncclResult_t group(F&& f) {
    REQUIRE(ncclGroupStart() == ncclSuccess);
    for (int r = 0; r < size(); ++r) f(r);
    return ncclGroupEnd();
  }

 private:
  std::vector<std::unique_ptr<Rank>> ranks_;
};

/// A buffer on each rank's device, made from values(rank).
template <class T>
class RankValues {
 public:
  template <class F>
  RankValues(Ranks& ranks, F&& values) : ranks_(ranks) {
    for (int r = 0; r < ranks.size(); ++r) {
      CHECK_CUDA(cudaSetDevice(r));
      buffers_.push_back(std::make_unique<TypedValues<T>>(values(r)));
    }
    CHECK_CUDA(cudaSetDevice(0));
  }
  T* operator[](int r) const { return *buffers_[size_t(r)]; }

  std::vector<double> read(int r) const {
    CHECK_CUDA(cudaSetDevice(r));
    auto values = buffers_[size_t(r)]->read(ranks_[r].stream);
    CHECK_CUDA(cudaSetDevice(0));
    return values;
  }

 private:
  Ranks& ranks_;
  std::vector<std::unique_ptr<TypedValues<T>>> buffers_;
};

/// n values that differ from rank to rank; sums over ranks are exact in all types.
inline std::vector<double> of_rank(int r, size_t n) {
  std::vector<double> v;
  for (size_t i = 0; i < n; ++i) v.push_back(double((i + 3 * size_t(r)) % 7) + 1);
  return v;
}

inline std::vector<double> zeros(size_t n) { return std::vector<double>(n); }

/// combine() over the ranks' values.
inline std::vector<double> combined(int ranks, size_t n, const std::function<double(double, double)>& combine) {
  std::vector<double> all = of_rank(0, n);
  for (int r = 1; r < ranks; ++r) {
    const auto v = of_rank(r, n);
    for (size_t i = 0; i < n; ++i) all[i] = combine(all[i], v[i]);
  }
  return all;
}
inline std::vector<double> summed(int ranks, size_t n) { return combined(ranks, n, std::plus<double>()); }

inline ncclResult_t async_error(ncclComm_t comm) {
  ncclResult_t error = ncclInternalError;
  REQUIRE(ncclCommGetAsyncError(comm, &error) == ncclSuccess);
  return error;
}

}  // namespace simgpu_test
