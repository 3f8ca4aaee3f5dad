// The shared secret: what is proved, and that nothing else proves it.
#include <tandem/parallel/token.h>

#include <doctest/doctest.h>

#include <cstdlib>
#include <set>

using namespace tandem;

TEST_CASE("a proof is the HMAC-SHA256 of role, challenge and own bytes") {
  Nonce challenge, own;
  for (size_t i = 0; i < challenge.size(); ++i) {
    challenge[i] = static_cast<unsigned char>(i);
    own[i] = static_cast<unsigned char>(255 - i);
  }
  // python3: hmac.new(b"secret", b"client\0" + bytes(range(32)) + bytes(range(255, 223, -1)), "sha256").hexdigest()
  CHECK(to_hex(prove("secret", "client", challenge, own)) ==
        "3a439d844c3ae02a665b340df75f4075c5dd703e3caaaa19b696f8f3a5a59a0d");
}

TEST_CASE("another token, role, challenge or order gives another proof") {
  const Nonce a = make_nonce(), b = make_nonce();
  const Proof proof = prove("secret", "client", a, b);
  CHECK(same_proof(proof, prove("secret", "client", a, b)));
  CHECK_FALSE(same_proof(proof, prove("Secret", "client", a, b)));
  CHECK_FALSE(same_proof(proof, prove("", "client", a, b)));
  CHECK_FALSE(same_proof(proof, prove("secret", "server", a, b)));
  CHECK_FALSE(same_proof(proof, prove("secret", "client", b, a)));
  for (size_t i = 0; i < proof.size(); ++i) {
    Proof other = proof;
    other[i] ^= 1;
    CHECK_FALSE(same_proof(proof, other));
  }
}

TEST_CASE("random bytes do not come twice") {
  std::set<Nonce> seen;
  for (int i = 0; i < 100; ++i) seen.insert(make_nonce());
  CHECK(seen.size() == 100);
}

TEST_CASE("the token is the environment's") {
  ::setenv("TANDEM_TOKEN", "s3cret", 1);
  CHECK(token_from_environment() == "s3cret");
  ::unsetenv("TANDEM_TOKEN");
  CHECK(token_from_environment().empty());
}
