/// Not installed. Transport: how the bytes of collectives get from rank to rank, in host memory. Each verb is called by
/// all members of a channel (transfer: by two), one at a time per rank, and returns when this rank's part is done and
/// its memory is its own again. Headers are compared before anything is written. Members are counted within the
/// channel.
#pragma once
#include <tandem/parallel/header.h>
#include <tandem/parallel/reduce_slices.h>

#include <cstddef>
#include <span>

namespace tandem {

class Wait;

/// What goes to a member and what comes from it; empty where nothing does.
struct Part {
  std::span<const std::byte> send;
  std::span<std::byte> recv;
};

class TANDEM_API Transport {
 public:
  virtual ~Transport() = default;
  /// parts[r].send goes to member r's parts[me].recv, which has its size. Part `me` is left to the caller.
  virtual void exchange(const Header& header, std::span<const Part> parts, Wait& wait) = 0;
  /// `data` becomes the reduction over all members, in their order, the same bits on all. Each member reduces its share
  /// of the elements and passes the result on.
  virtual void all_reduce(const Header& header, std::span<std::byte> data, const Reduction& reduction, Wait& wait) = 0;
  /// One of the two is empty.
  virtual void transfer(const Header& header, int peer, std::span<const std::byte> send, std::span<std::byte> recv,
                        Wait& wait) = 0;
};

/// Member r's share of n elements begins here; whole cache lines of the narrowest dtype.
inline size_t share_begin(size_t n, int size, int r) {
  if (r >= size) return n;
  return n * size_t(r) / size_t(size) / 64 * 64;
}

}  // namespace tandem
