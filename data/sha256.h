/// Not installed: SHA-256, by OpenSSL.
#pragma once
#include <tandem/core/export.h>

#include <cstddef>
#include <memory>
#include <string>

struct evp_md_ctx_st;

namespace tandem::data {

class TANDEM_API Sha256 {
 public:
  Sha256();
  void update(const void* data, size_t bytes);
  /// 64 hexadecimal digits, once, at the end.
  std::string hex();

 private:
  std::unique_ptr<evp_md_ctx_st, void (*)(evp_md_ctx_st*)> context_;
};

}  // namespace tandem::data
