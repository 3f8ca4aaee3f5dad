/// Not installed: a checksum that finds damage, and not malice.
#pragma once
#include <cstddef>
#include <memory>
#include <string>

struct evp_cipher_ctx_st;

namespace tandem::detail {

/// The first 8 bytes of AES-GMAC under a key of zeros: the fastest that OpenSSL has, 4 ms for 30 MB where SHA-256 takes
/// 20.
class Checksum {
 public:
  Checksum();
  void update(const void* data, size_t bytes);
  /// 16 hexadecimal digits, once, at the end.
  std::string hex();

 private:
  std::unique_ptr<evp_cipher_ctx_st, void (*)(evp_cipher_ctx_st*)> context_;
};

}  // namespace tandem::detail
