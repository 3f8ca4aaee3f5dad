#include <tandem/core/error.h>
#include <tandem/nn/checksum.h>

#include <openssl/evp.h>

#include <algorithm>
#include <cstdint>

namespace tandem::detail {
namespace {

constexpr size_t kTagBytes = 16, kShownBytes = 8;

void require(int result) { check(result == 1, "[Checksum] OpenSSL failed"); }

}  // namespace

Checksum::Checksum() : context_(EVP_CIPHER_CTX_new(), EVP_CIPHER_CTX_free) {
  const unsigned char key[16] = {}, iv[12] = {};
  check(context_ != nullptr, "[Checksum] OpenSSL has no memory");
  require(EVP_EncryptInit_ex(context_.get(), EVP_aes_128_gcm(), nullptr, key, iv));
}

// Nothing is encrypted: all of it goes in as what GCM only authenticates.
void Checksum::update(const void* data, size_t bytes) {
  constexpr size_t kMost = size_t{1} << 30;  // OpenSSL counts in ints
  for (auto at = static_cast<const unsigned char*>(data); bytes > 0;) {
    const size_t n = std::min(bytes, kMost);
    int ignored = 0;
    require(EVP_EncryptUpdate(context_.get(), nullptr, &ignored, at, int(n)));
    at += n;
    bytes -= n;
  }
}

std::string Checksum::hex() {
  unsigned char tag[kTagBytes], nothing[kTagBytes];
  int ignored = 0;
  require(EVP_EncryptFinal_ex(context_.get(), nothing, &ignored));
  require(EVP_CIPHER_CTX_ctrl(context_.get(), EVP_CTRL_GCM_GET_TAG, kTagBytes, tag));
  std::string s;
  for (size_t i = 0; i < kShownBytes; ++i) {
    s += "0123456789abcdef"[tag[i] >> 4];
    s += "0123456789abcdef"[tag[i] & 15];
  }
  return s;
}

}  // namespace tandem::detail
