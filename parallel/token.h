/// Not installed. Token: how two ends of a connection prove to each other that they know the group's shared secret,
/// without sending it. Each end sends random bytes and answers the other's with an HMAC-SHA256 over both, so that
/// nothing recorded can be played back.
#pragma once
#include <tandem/core/export.h>

#include <array>
#include <cstddef>
#include <string>
#include <string_view>

namespace tandem {

using Nonce = std::array<unsigned char, 32>;
using Proof = std::array<unsigned char, 32>;

/// The environment variable TANDEM_TOKEN; empty where it is not set. The launcher makes one for its processes.
TANDEM_API std::string token_from_environment();

/// Random bytes from the system. Throws Error where it has none.
TANDEM_API Nonce make_nonce();

/// What whoever is in the `role` ("client", "store", ...) must answer to `challenge`, having sent `own`. The role keeps
/// one end's answer from serving as the other's.
TANDEM_API Proof prove(const std::string& token, std::string_view role, const Nonce& challenge, const Nonce& own);

/// Takes the same time wherever they differ.
TANDEM_API bool same_proof(const Proof& a, const Proof& b);

/// Lower-case hexadecimal digits.
TANDEM_API std::string to_hex(const Nonce& n);

}  // namespace tandem
