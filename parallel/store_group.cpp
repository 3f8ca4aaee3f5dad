#include <tandem/parallel/list_ranks.h>
#include <tandem/parallel/store_group.h>

#include <algorithm>

namespace tandem {
namespace {

using std::chrono::milliseconds;

constexpr milliseconds kFirstRollCall{2000}, kRollCall{5000};
// A connection lost before all have joined: the same client may come back.
constexpr milliseconds kReturn{500};
// Members beat every 50 ms. One that is not heard for this long does not run.
constexpr milliseconds kSilence{500};
// One that is late, and for whom an answer waits until it beats or is silent.
constexpr milliseconds kLate{200};
// How long a question waits for the beats that were under way when it was asked.
constexpr milliseconds kQuestionDelay{100};
// Those who leave after a failure stay so long for others who have not left yet: mpirun and srun end all ranks once one
// has exited, and each shall have said why it fails.
constexpr milliseconds kLastWords{300};
constexpr int64_t kLongestMs = int64_t{1000} * 3600 * 24 * 365;

int64_t in_ms(Clock::duration d) { return std::chrono::duration_cast<milliseconds>(d).count(); }

}  // namespace

std::string name_of_group(int64_t group) {
  const int restarts = restarts_of(group);
  return message("group ", group - group_number(restarts, 0), restarts ? message(" of restart ", restarts) : "");
}

std::string JoinRequest::body() const {
  return FrameWriter()
      .number(group)
      .number(rank)
      .number(world_size)
      .text(nonce)
      .text(where)
      .number(timeout.count())
      .body();
}

JoinRequest JoinRequest::read(FrameReader& body) {
  JoinRequest r;
  r.group = body.number();
  r.rank = int(body.number(0, kMaxWorldSize));
  r.world_size = int(body.number(1, kMaxWorldSize));
  r.nonce = body.text();
  r.where = body.text();
  r.timeout = milliseconds(body.number(0, kLongestMs));
  return r;
}

void write(FrameWriter& to, const CompletedByChannel& completed) {
  to.number(int64_t(completed.size()));
  for (auto& [channel, c] : completed) {
    to.number(channel).number(int64_t(c.collectives)).number(int64_t(c.transfers.size()));
    for (auto& [member, t] : c.transfers) to.number(member).number(int64_t(t.sent)).number(int64_t(t.received));
  }
}

CompletedByChannel read_completed(FrameReader& body) {
  CompletedByChannel completed;
  for (int64_t channels = body.number(0, kMaxFrameBytes); channels > 0; --channels) {
    Completed& c = completed[uint32_t(body.number(0, UINT32_MAX))];
    c.collectives = uint64_t(body.number());
    for (int64_t members = body.number(0, kMaxWorldSize); members > 0; --members) {
      auto& t = c.transfers[int(body.number(0, kMaxWorldSize))];
      t.sent = uint64_t(body.number());
      t.received = uint64_t(body.number());
    }
  }
  return completed;
}

StoreGroup::Member* StoreGroup::member_of(const StorePeer* peer, int* rank) {
  for (auto& [r, m] : members_)
    if (m.peer.get() == peer) {
      if (rank) *rank = r;
      return &m;
    }
  return nullptr;
}

void StoreGroup::join(const std::shared_ptr<StorePeer>& peer, uint64_t id, const JoinRequest& r) {
  const auto now = Clock::now();
  const auto taken = members_.find(r.rank);
  if (complete_) {
    const std::string by = taken == members_.end() ? "" : message(", rank ", r.rank, " being ", taken->second.where);
    peer->send(StoreOp::refused, id,
               message(name_of_group(number_), " at this address is complete", by, ": rank ", r.rank, " of ",
                       r.world_size, " (", r.where, ") is not wanted"));
    return;
  }
  if (verdict_) {
    if (taken != members_.end() && taken->second.nonce != r.nonce) {
      peer->send(StoreOp::again, id);  // it knows, and wants to begin anew
      return;
    }
    Member& late = members_[r.rank];
    late.peer = peer;
    late.nonce = r.nonce;
    peer->send(StoreOp::verdict, 0, *verdict_);
    return;
  }
  if (world_size_ == 0) {
    world_size_ = r.world_size;
    says_ = message("rank ", r.rank, " (", r.where, ")");
  }
  std::string contradiction;
  if (r.world_size != world_size_)
    contradiction = message("the ranks disagree on the world size: it is ", world_size_, " for ", says_, ", and ",
                            r.world_size, " for rank ", r.rank, " (", r.where, ")");
  else if (r.rank >= world_size_)
    contradiction = message("rank ", r.rank, " (", r.where, ") can't be in a world of ", world_size_);
  else if (taken != members_.end() && taken->second.nonce != r.nonce)
    contradiction =
        message("two processes both say that they are rank ", r.rank, ": ", taken->second.where, " and ", r.where);
  if (!contradiction.empty()) {
    verdict(-1, "[rendezvous] " + contradiction);
    peer->send(StoreOp::verdict, 0, *verdict_);
    return;
  }
  Member& m = members_[r.rank];
  m.peer = peer;
  m.nonce = r.nonce;
  m.where = r.where;
  m.join_id = id;
  m.deadline = now + r.timeout;
  m.lost.reset();
  if (!next_roll_call_) next_roll_call_ = now + kFirstRollCall;
  begin_if_all_are_here();
}

std::vector<int> StoreGroup::missing() const {
  std::vector<int> ranks;
  for (int r = 0; r < world_size_; ++r) {
    auto it = members_.find(r);
    if (it == members_.end() || it->second.lost) ranks.push_back(r);
  }
  return ranks;
}

void StoreGroup::begin_if_all_are_here() {
  if (int(members_.size()) < world_size_ || !missing().empty()) return;
  complete_ = true;
  // Rank 0 last: when it knows that all are there, they do, even if it ends at once and the store with it.
  for (auto it = members_.rbegin(); it != members_.rend(); ++it) {
    it->second.beat = Clock::now();
    it->second.peer->send(StoreOp::ok, it->second.join_id);
  }
}

void StoreGroup::handle(const std::shared_ptr<StorePeer>& peer, StoreOp op, uint64_t id, FrameReader& body) {
  int rank = -1;
  Member* m = member_of(peer.get(), &rank);
  check<CommError>(m != nullptr, "a member's request from a connection that is none's");
  m->beat = Clock::now();
  switch (op) {
    case StoreOp::beat: return beat(*m, body);
    case StoreOp::goodbye: return goodbye(rank, id, body);
    case StoreOp::report: {
      const int culprit = int(body.number(-1, kMaxWorldSize));
      verdict(culprit, body.text());
      return peer->send(StoreOp::ok, id);
    }
    case StoreOp::who: return question(rank, body);
    default: check<CommError>(keys_.handle(peer, op, id, body), "an unknown operation, ", int(op));
  }
}

void StoreGroup::beat(Member& m, FrameReader& body) {
  const int64_t n = body.number(0, kMaxFrameBytes);
  for (int64_t i = 0; i < n; ++i) {
    Progress& p = m.progress[uint32_t(body.number(0, UINT32_MAX))];
    p.sequence = uint64_t(body.number());
    p.steps = uint32_t(body.number(0, UINT32_MAX));
    const std::string name = body.text();
    m.doing = message("collective number ", p.sequence, " of ", name);
  }
}

void StoreGroup::question(int asker, FrameReader& body) {
  Question q{asker, uint32_t(body.number(0, UINT32_MAX)), body.text(), body.number(0, 1) == 1,
             {},    Clock::now() + kQuestionDelay};
  for (int64_t n = body.number(0, world_size_); n > 0; --n) q.members.push_back(int(body.number(0, world_size_ - 1)));
  questions_.push_back(std::move(q));
}

void StoreGroup::goodbye(int rank, uint64_t id, FrameReader& body) {
  Member& m = members_.at(rank);
  const std::string reason = body.text();
  const CompletedByChannel completed = read_completed(body);
  for (auto& [channel, c] : completed) m.progress[channel].sequence = c.collectives;
  FrameWriter told;
  write(told.number(rank).text(reason), completed);
  m.left = true;
  m.goodbye = id;
  m.stays_until = Clock::now() + (reason.empty() && !verdict_ ? milliseconds(0) : kLastWords);
  if (!complete_)
    verdict(rank, message("[rendezvous] rank ", rank, " (", m.where, ") left before all had joined",
                          reason.empty() ? "" : ": ", reason));
  else
    tell_all(StoreOp::left, told.body());
  let_go(Clock::now());
}

void StoreGroup::let_go(Clock::time_point now) {
  const bool all =
      std::all_of(members_.begin(), members_.end(), [](auto& m) { return m.second.left || m.second.gone; });
  for (auto& [rank, m] : members_)
    if (m.goodbye && (all || now >= m.stays_until)) {
      m.peer->send(StoreOp::ok, *m.goodbye);
      m.goodbye.reset();
    }
}

void StoreGroup::outdated(const JoinRequest& by) {
  verdict(by.rank, message("[rendezvous] rank ", by.rank, " (", by.where, ") has been started again, and belongs to ",
                           name_of_group(by.group), "; this is ", name_of_group(number_)));
}

void StoreGroup::lost(const StorePeer* peer, const std::string& why) {
  keys_.forget(peer);
  int rank = -1;
  Member* m = member_of(peer, &rank);
  if (!m || m->gone) return;
  if (m->left || verdict_) {
    m->gone = true;
    let_go(Clock::now());
  } else if (!complete_) {
    m->lost = Clock::now();
    m->why_lost = why;
  } else {
    m->gone = true;
    verdict(rank,
            message("rank ", rank, " (", m->where, ") has died: its connection to the store ended (", why, "); ",
                    m->doing.empty() ? "it had not told of any collective yet" : "it was last seen in ", m->doing));
  }
}

void StoreGroup::tick(Clock::time_point now) {
  keys_.tick(now);
  let_go(now);
  if (verdict_) return;
  if (complete_)
    tick_questions(now);
  else
    tick_rendezvous(now);
}

void StoreGroup::tick_rendezvous(Clock::time_point now) {
  for (auto& [rank, m] : members_)
    if (m.lost && now - *m.lost > kReturn)
      return verdict(rank,
                     message("[rendezvous] rank ", rank, " (", m.where,
                             ") has died before all had joined: its connection to the store ended (", m.why_lost, ")"));
  const auto first = std::min_element(members_.begin(), members_.end(),
                                      [](auto& a, auto& b) { return a.second.deadline < b.second.deadline; });
  if (first == members_.end()) return;
  const std::vector<int> absent = missing();
  if (now >= first->second.deadline)
    return verdict(absent[0],
                   message("[rendezvous] ", list_ranks(absent), " of ", world_size_,
                           " did not come by the deadline of rank ", first->first, " (", name_of_group(number_), ")"));
  if (next_roll_call_ && now >= *next_roll_call_) {
    next_roll_call_ = now + kRollCall;
    tell_all(StoreOp::roll_call, FrameWriter().text(message(list_ranks(absent), " of ", world_size_)).body());
  }
}

void StoreGroup::tick_questions(Clock::time_point now) {
  std::erase_if(questions_, [&](const Question& q) { return now >= q.at && (verdict_ || answer(q, now)); });
}

bool StoreGroup::answer(const Question& q, Clock::time_point now) {
  std::vector<Progress> progress;
  int silent = -1;
  for (int rank : q.members) {
    const auto it = members_.find(rank);
    if (it == members_.end()) return true;
    const Member& m = it->second;
    const auto at = m.progress.find(q.channel);
    progress.push_back(at == m.progress.end() ? Progress{} : at->second);
    if (!m.left && (silent < 0 || m.beat < members_.at(silent).beat)) silent = rank;
  }
  if (silent >= 0) {
    const auto quiet = now - members_.at(silent).beat;
    if (quiet > kSilence) {
      verdict(silent, message("[", q.what, "] rank ", silent, " (", members_.at(silent).where, ") is silent, for ",
                              in_ms(quiet), " ms: it is stopped, or its machine can't be reached"));
      return true;
    }
    if (quiet > kLate) return false;
  }
  if (q.only_for_silence) {
    members_.at(q.asker).peer->send(StoreOp::alive, 0);
    return true;
  }
  const Blame b = blame_for_delay(q.what, q.members, progress);
  verdict(b.culprit, b.why);
  return true;
}

void StoreGroup::forgive_silence(Clock::time_point now) {
  for (auto& [rank, m] : members_) m.beat = now;
}

void StoreGroup::verdict(int culprit, const std::string& why) {
  if (verdict_) return;
  verdict_ = FrameWriter().number(culprit).text(why).body();
  tell_all(StoreOp::verdict, *verdict_);
}

void StoreGroup::tell_all(StoreOp op, const std::string& body) {
  for (auto it = members_.rbegin(); it != members_.rend(); ++it)  // descending: rank 0 last
    if (!it->second.gone && !it->second.lost) it->second.peer->send(op, 0, body);
}

bool StoreGroup::settled() const {
  if (verdict_ && !complete_ && int(members_.size()) < world_size_) return false;
  return std::all_of(members_.begin(), members_.end(), [&](auto& entry) {
    const Member& m = entry.second;
    return m.gone || m.lost || ((m.left || verdict_) && m.peer->flushed());
  });
}

void StoreGroup::close() {
  for (auto& [rank, m] : members_) m.peer->close();
}

}  // namespace tandem
