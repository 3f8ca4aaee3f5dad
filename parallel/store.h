/// Store: keys and values that processes share, by TCP: PyTorch's TCPStore. One of them serves it.
#pragma once
#include <tandem/core/export.h>

#include <chrono>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

namespace tandem {

struct StoreOptions {
  std::string host = "127.0.0.1";
  /// 0 takes a free one, which `Store::port` tells; for the one that serves.
  int port = 29500;
  /// Whether this process serves the store. It listens at the host's address alone, and beyond loopback only with a
  /// token: the environment variable TANDEM_TOKEN, the same in all processes.
  bool is_master = false;
  /// Put before each key, so that several users of one store don't meet.
  std::string prefix = {};
  /// Of each request that has none of its own, and of the connection.
  std::chrono::milliseconds timeout = std::chrono::minutes(5);
};

/// May be used by several threads. Keys and values are bytes, at most 1 MB in a request. All requests throw CommError
/// at their deadline, and where the store's process has ended.
class TANDEM_API Store {
 public:
  using Timeout = std::chrono::milliseconds;
  static constexpr Timeout kDefault{-1};  // the options'

  /// Waits for the store to be served. Throws CommError.
  explicit Store(const StoreOptions& options);
  ~Store();
  Store(Store&&) noexcept;
  Store& operator=(Store&&) noexcept;

  int port() const;

  void set(const std::string& key, const std::string& value, Timeout timeout = kDefault);
  /// Waits until the key is set.
  std::string get(const std::string& key, Timeout timeout = kDefault);
  /// Returns when all of the keys are set.
  void wait(const std::vector<std::string>& keys, Timeout timeout = kDefault);
  /// Adds to a decimal number, 0 where there is none, and returns the sum.
  int64_t add(const std::string& key, int64_t amount, Timeout timeout = kDefault);
  /// Sets the key to `desired` if its value is `expected`, or if it is not set and `expected` is empty. Returns what it
  /// is now; `expected` where it is not set.
  std::string compare_set(const std::string& key, const std::string& expected, const std::string& desired,
                          Timeout timeout = kDefault);

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace tandem
