#include <tandem/core/error.h>
#include <tandem/data/sha256.h>

#include <openssl/evp.h>

namespace tandem::data {

Sha256::Sha256() : context_(EVP_MD_CTX_new(), EVP_MD_CTX_free) {
  check(context_ && EVP_DigestInit_ex(context_.get(), EVP_sha256(), nullptr) == 1, "[Sha256] OpenSSL has none");
}

void Sha256::update(const void* data, size_t bytes) {
  check(EVP_DigestUpdate(context_.get(), data, bytes) == 1, "[Sha256] OpenSSL failed");
}

std::string Sha256::hex() {
  unsigned char digest[EVP_MAX_MD_SIZE];
  unsigned n = 0;
  check(EVP_DigestFinal_ex(context_.get(), digest, &n) == 1, "[Sha256] OpenSSL failed");
  std::string s;
  for (unsigned i = 0; i < n; ++i) {
    s += "0123456789abcdef"[digest[i] >> 4];
    s += "0123456789abcdef"[digest[i] & 15];
  }
  return s;
}

}  // namespace tandem::data
