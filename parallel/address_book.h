/// Not installed. AddressBook: what the members of a group tell each other before they are connected. The store of
/// their rendezvous keeps it.
#pragma once
#include <tandem/core/export.h>

#include <string>

namespace tandem {

class Wait;

class TANDEM_API AddressBook {
 public:
  virtual ~AddressBook() = default;
  /// Each key is put once, by one member. Throws CommError.
  virtual void put(const std::string& key, const std::string& value) = 0;
  /// What a member has put there, or will. Calls wait.check() at least every wait.nap(), and so throws CommError when
  /// the group fails or the deadline passes.
  virtual std::string get(const std::string& key, Wait& wait) = 0;
};

}  // namespace tandem
