/// Not installed. StoreClient: one end of a proven connection to a store. Requests block with a deadline; what the
/// store tells on its own is handed to callbacks, which run on the client's thread.
#pragma once
#include <tandem/core/error.h>
#include <tandem/parallel/descriptor.h>
#include <tandem/parallel/store_protocol.h>

#include <functional>
#include <future>
#include <memory>

namespace tandem {

/// The connection ended before the answer came, or the store asks to begin anew: a new connection may do better.
struct TANDEM_API StoreCutOff : CommError {
  explicit StoreCutOff(const std::string& what) : CommError(what, 0) {}
};

/// The store did not answer in time, though it answers at once where a key was not set in time.
struct TANDEM_API StoreSilent : CommError {
  explicit StoreSilent(const std::string& what) : CommError(what, 0) {}
};

/// What a request came to: a value, or what is thrown for it where it was asked for.
struct TANDEM_API StoreReply {
  enum class Kind : uint8_t { value, refused, cut_off, interrupted };
  Kind kind = Kind::value;
  std::string text = {};
  int culprit = -1;

  /// The value. Throws CommError and StoreCutOff.
  const std::string& value() const;
};

struct StoreEvents {
  /// A verdict, a departure, a roll-call: the frame, to be read.
  std::function<void(StoreOp op, FrameReader& body)> told = {};
  /// The connection has ended. The last event.
  std::function<void(const std::string& why)> ended = {};
  /// Every 50 ms.
  std::function<void()> tick = {};
};

class TANDEM_API StoreClient {
 public:
  StoreClient(Descriptor connection, StoreEvents events);
  /// Ends the callbacks, if `stop` has not.
  ~StoreClient();
  StoreClient(const StoreClient&) = delete;
  StoreClient& operator=(const StoreClient&) = delete;

  /// The callbacks begin.
  void start();
  /// They have ended when it returns, and the requests that wait are cut off.
  void stop();

  /// A request that does not wait for its reply.
  std::future<StoreReply> ask(StoreOp op, const std::string& body);
  /// The value of the reply. Throws StoreCutOff; StoreSilent after `patience`; CommError where the store refuses, and
  /// where `interrupt` ended it.
  std::string request(StoreOp op, const std::string& body, std::chrono::milliseconds patience);
  /// Without a reply.
  void post(StoreOp op, const std::string& body);

  /// Ends the requests that wait, and all later ones but goodbyes, with a CommError of this.
  void interrupt(int culprit, const std::string& why);
  /// Whether this is the thread that runs the callbacks.
  bool on_own_thread() const;
  /// The number of this machine's address towards the store.
  const std::string& local_host() const { return local_host_; }

 private:
  class Impl;
  std::string local_host_;
  std::unique_ptr<Impl> impl_;
};

}  // namespace tandem
