#include <tandem/core/error.h>
#include <tandem/parallel/token.h>

#include <openssl/crypto.h>
#include <openssl/evp.h>
#include <openssl/hmac.h>
#include <openssl/rand.h>

#include <cstdlib>

namespace tandem {

std::string token_from_environment() {
  const char* token = std::getenv("TANDEM_TOKEN");
  return token ? token : "";
}

Nonce make_nonce() {
  Nonce n;
  check(RAND_bytes(n.data(), int(n.size())) == 1, "[make_nonce] OpenSSL has no random bytes");
  return n;
}

Proof prove(const std::string& token, std::string_view role, const Nonce& challenge, const Nonce& own) {
  std::string text(role);
  text += '\0';
  text.append(reinterpret_cast<const char*>(challenge.data()), challenge.size());
  text.append(reinterpret_cast<const char*>(own.data()), own.size());
  Proof p;
  unsigned int bytes = 0;
  const auto* done = HMAC(EVP_sha256(), token.data(), int(token.size()),
                          reinterpret_cast<const unsigned char*>(text.data()), text.size(), p.data(), &bytes);
  check(done != nullptr && bytes == p.size(), "[prove] OpenSSL failed");
  return p;
}

bool same_proof(const Proof& a, const Proof& b) { return CRYPTO_memcmp(a.data(), b.data(), a.size()) == 0; }

std::string to_hex(const Nonce& n) {
  constexpr char kDigits[] = "0123456789abcdef";
  std::string s;
  for (unsigned char c : n) {
    s += kDigits[c >> 4];
    s += kDigits[c & 15];
  }
  return s;
}

}  // namespace tandem
