/// Not installed. What a store and its clients say to each other: a greeting, in which both prove the token, then
/// frames of a fixed head and a body of fields. Numbers are little-endian. A body is read as if an enemy had written
/// it.
#pragma once
#include <tandem/core/export.h>
#include <tandem/parallel/token.h>

#include <chrono>
#include <cstdint>
#include <string>
#include <string_view>

namespace tandem {

/// The greeting: the store's challenge, the client's answer and challenge, the store's answer.
inline constexpr std::array<char, 8> kStoreMagic{'T', 'A', 'N', 'D', 'E', 'M', 'S', '1'};
struct StoreChallenge {
  std::array<char, 8> magic = kStoreMagic;
  Nonce nonce{};
};
struct StoreAnswer {
  std::array<char, 8> magic = kStoreMagic;
  Nonce nonce{};
  Proof proof{};
};
struct StoreWelcome {
  std::array<char, 8> magic = kStoreMagic;
  uint64_t accepted = 0;  // 0: the token is not the store's, and the rest says nothing
  Nonce identity{};       // of this store, among all there ever were at its address
  Proof proof{};
};
inline constexpr std::string_view kClientRole = "store client", kServerRole = "store server";

enum class StoreOp : uint8_t {
  // Asked with an id, which the reply repeats.
  set = 1,      // key, value
  get,          // key, milliseconds: replies when it is set
  add,          // key, number
  compare_set,  // key, expected, desired
  join,         // group, rank, world size, nonce, where, milliseconds: replies when all are there
  report,       // culprit, why
  goodbye,      // reason, what it has completed
  // Told, without a reply.
  beat,  // progress
  who,   // a deadline has passed: channel, what, whether only silence counts, members
  // Replies.
  ok,       // value
  refused,  // why
  again,    // ask again in a while: what was asked for is about to end
  // Told by the store.
  verdict,    // culprit, why
  left,       // rank, reason, what it has completed
  roll_call,  // who is missing
  alive,      // all who were asked after
};

struct FrameHead {
  uint32_t bytes = 0;  // of the body
  StoreOp op{};
  uint8_t reserved[3] = {};
  uint64_t id = 0;
};
static_assert(sizeof(FrameHead) == 16);
inline constexpr uint32_t kMaxFrameBytes = 1 << 20;

/// Puts fields one after the other.
class TANDEM_API FrameWriter {
 public:
  FrameWriter& text(std::string_view s);
  FrameWriter& number(int64_t v);
  const std::string& body() const { return body_; }

 private:
  std::string body_;
};

/// Takes them out again. Throws CommError where there are fewer bytes than they claim.
class TANDEM_API FrameReader {
 public:
  explicit FrameReader(std::string_view body) : rest_(body) {}
  std::string text();
  int64_t number();
  /// One that must lie in [least, most].
  int64_t number(int64_t least, int64_t most);

 private:
  std::string_view take(size_t bytes);
  std::string_view rest_;
};

/// Head and body. Throws CommError where the body is longer than a frame may be.
TANDEM_API std::string to_frame(StoreOp op, uint64_t id, const std::string& body);

/// A client's connection as the store's groups and keys see it.
class TANDEM_API StorePeer {
 public:
  virtual ~StorePeer() = default;
  virtual void send(StoreOp op, uint64_t id, const std::string& body = {}) = 0;
  /// Whether all that was sent is on its way.
  virtual bool flushed() const = 0;
  virtual void close() = 0;
};

}  // namespace tandem
