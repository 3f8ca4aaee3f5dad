/// Not installed. StoreGroup: one numbered group on the store's side. Its members join with a connection that lasts as
/// long as the group does; one that ends without a goodbye is a death. There is one verdict, the first cause, and rank
/// 0 hears it last, since its process holds the store and may leave at once.
#pragma once
#include <tandem/parallel/membership.h>
#include <tandem/parallel/store_keys.h>

#include <optional>

namespace tandem {

/// A group's number at its address: how many its ranks have formed there since they were started, and how often they
/// have been started again.
inline int64_t group_number(int restarts, int64_t formed) { return int64_t(restarts) << 32 | formed; }
inline int restarts_of(int64_t group) { return int(group >> 32); }
/// "group 3", "group 3 of restart 1"
std::string name_of_group(int64_t group);

/// What a member says of itself as it joins.
struct JoinRequest {
  int64_t group = 0;
  int rank = 0;
  int world_size = 0;
  std::string nonce;  // of this attempt to join, which may take several connections
  std::string where;  // "process 1234 on host"
  std::chrono::milliseconds timeout{0};

  std::string body() const;
  static JoinRequest read(FrameReader& body);
};
inline constexpr int kMaxWorldSize = 1 << 20;

/// What a member says as it leaves.
void write(FrameWriter& to, const CompletedByChannel& completed);
CompletedByChannel read_completed(FrameReader& body);

class TANDEM_API StoreGroup {
 public:
  explicit StoreGroup(int64_t number) : number_(number) {}

  void join(const std::shared_ptr<StorePeer>& peer, uint64_t id, const JoinRequest& request);
  /// What a member asks for, or tells. Throws CommError for what is none of it.
  void handle(const std::shared_ptr<StorePeer>& peer, StoreOp op, uint64_t id, FrameReader& body);
  /// This connection has ended.
  void lost(const StorePeer* peer, const std::string& why);
  void tick(Clock::time_point now);
  /// The ranks have been started again, as one that has come says: this group has no future.
  void outdated(const JoinRequest& by);
  /// The store itself stood still: the members' silence was its own.
  void forgive_silence(Clock::time_point now);

  /// Whether all have been there at once.
  bool complete() const { return complete_; }
  /// Whether nobody is left who needs the store: all have gone, or all know the verdict.
  bool settled() const;
  /// Ends the members' connections.
  void close();

 private:
  struct Member {
    std::shared_ptr<StorePeer> peer;
    std::string nonce, where;
    uint64_t join_id = 0;
    Clock::time_point deadline, beat;
    std::optional<Clock::time_point> lost;  // before all had joined; it may come back
    std::string why_lost;
    bool left = false, gone = false;
    std::optional<uint64_t> goodbye;        // to be answered
    Clock::time_point stays_until;          // then, at the latest
    std::map<uint32_t, Progress> progress;  // by channel
    std::string doing;                      // what it was in last, in words
  };
  struct Question {  // whom to blame for a missed deadline
    int asker;
    uint32_t channel;
    std::string what;
    bool only_for_silence;
    std::vector<int> members;
    Clock::time_point at;
  };

  Member* member_of(const StorePeer* peer, int* rank = nullptr);
  std::vector<int> missing() const;
  void begin_if_all_are_here();
  void tick_rendezvous(Clock::time_point now);
  void tick_questions(Clock::time_point now);
  /// False where it has to wait for a sign of life.
  bool answer(const Question& q, Clock::time_point now);
  void beat(Member& m, FrameReader& body);
  void question(int asker, FrameReader& body);
  void goodbye(int rank, uint64_t id, FrameReader& body);
  void verdict(int culprit, const std::string& why);
  /// Answers the goodbyes that are due: one after a failure waits for the others'.
  void let_go(Clock::time_point now);
  /// To all members, rank 0 last.
  void tell_all(StoreOp op, const std::string& body);

  const int64_t number_;
  int world_size_ = 0;  // the first one's
  std::string says_;    // who that was
  bool complete_ = false;
  std::optional<std::string> verdict_;  // as a frame's body
  std::map<int, Member> members_;
  std::vector<Question> questions_;
  std::optional<Clock::time_point> next_roll_call_;
  StoreKeys keys_;
};

}  // namespace tandem
