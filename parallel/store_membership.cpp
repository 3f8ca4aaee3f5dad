#include <tandem/core/log.h>
#include <tandem/parallel/blamed_process.h>
#include <tandem/parallel/store_client.h>
#include <tandem/parallel/store_group.h>
#include <tandem/parallel/store_membership.h>
#include <tandem/parallel/store_server.h>
#include <tandem/parallel/transport.h>

#include <unistd.h>

#include <algorithm>
#include <thread>

namespace tandem {
namespace {

using std::chrono::milliseconds;

// The store says itself when the time is over; this is for its answer to arrive.
constexpr milliseconds kAnswerTime{1000};
constexpr milliseconds kGoodbyeTime{500};
// How long rank 0 keeps the store up for others: to see them leave, or to tell latecomers why nothing came of the
// group.
constexpr milliseconds kStoreGrace{1000};
// A store that is asked whom to blame answers within 0.6 s, on a busy machine somewhat later.
constexpr milliseconds kStoreSilence{2000};
constexpr milliseconds kAttemptPause{10};

std::string this_process(int rank, int ranks) {
  char host[256] = "?";
  ::gethostname(host, sizeof host - 1);
  const int first = rank / ranks * ranks;
  return message(
      "process ", ::getpid(), " on ", host,
      ranks > 1 ? message(", which runs ranks ", first, ranks == 2 ? " and " : " to ", first + ranks - 1) : "");
}

}  // namespace

StoreMembership::StoreMembership(StoreMembershipOptions options)
    : Membership(options.rank, options.size, options.timeout),
      options_(std::move(options)),
      exceptions_(std::uncaught_exceptions()) {
  on_failure([this] { interrupt_client(); });
  try {
    join();
  } catch (const std::exception& e) {
    // The caller hears it when the others have, or a second later.
    if (options_.server) log(LogLevel::error, message("rank ", rank(), ": ", e.what()));
    shut_down(e.what());
    throw;
  }
}

StoreMembership::~StoreMembership() {
  const bool thrown = std::uncaught_exceptions() > exceptions_;
  shut_down(!thrown ? "" : failed() ? verdict().second : "it was ended by an exception");
}

void StoreMembership::join() {
  const auto deadline = Clock::now() + options_.rendezvous_timeout;
  JoinRequest request{
      options_.group, rank(), size(), to_hex(make_nonce()), this_process(rank(), options_.ranks_of_process), {}};
  for (;;) {
    client_ = std::make_unique<StoreClient>(
        connect_to_store(options_.locate, options_.token, deadline, message("rank ", rank())),
        StoreEvents{[this](StoreOp op, FrameReader& body) { told(op, body); },
                    [this](const std::string& why) { connection_ended(why); }, [this] { beat(); }});
    client_->start();
    request.timeout = std::max(std::chrono::ceil<milliseconds>(deadline - Clock::now()), milliseconds(0));
    try {
      client_->request(StoreOp::join, request.body(), request.timeout + kAnswerTime);
      break;
    } catch (const StoreCutOff&) {
      if (Clock::now() >= deadline) throw;
    } catch (const StoreSilent& e) {
      throw CommError(message("[rendezvous] rank ", rank(), " waits for the others in vain: ", e.what()), 0);
    } catch (const CommError&) {
      check_rendezvous();
      throw;
    }
    client_->stop();
    why_ended_.clear();
    std::this_thread::sleep_for(kAttemptPause);
  }
  begin();
}

void StoreMembership::begin() {
  local_host_ = client_->local_host();
  std::string ended;
  {
    std::lock_guard lock(state_mutex_);
    joined_ = true;
    ended = why_ended_;
  }
  if (!ended.empty()) connection_ended(ended);
  check_rendezvous();
}

// A verdict on the rendezvous itself says so.
void StoreMembership::check_rendezvous() const {
  if (failed()) throw_verdict(verdict().second.starts_with("[rendezvous]") ? "" : "the rendezvous");
}

void StoreMembership::shut_down(const std::string& reason) {
  leave(reason);
  if (options_.server) options_.server->finish(options_.group, kStoreGrace);
  if (client_) client_->stop();
}

void StoreMembership::leave(const std::string& reason) {
  {
    std::lock_guard lock(state_mutex_);
    if (std::exchange(left_, true) || !client_) return;
  }
  FrameWriter goodbye;
  write(goodbye.text(reason), completed());
  try {
    client_->request(StoreOp::goodbye, goodbye.body(), kGoodbyeTime);
  } catch (const CommError&) {
    // The store has ended, and the group with it: nobody is left to be told.
  }
}

std::unique_ptr<Transport> StoreMembership::connect(const std::shared_ptr<Channel>& channel) {
  tandem::check<CommError>(options_.transport != nullptr, "[connect] this membership has no transport");
  return options_.transport(*this, channel);
}

void StoreMembership::put(const std::string& key, const std::string& value) {
  const std::string in = message("connecting, where it puts '", key, "'");
  check(in);
  try {
    client_->request(StoreOp::set, FrameWriter().text(key).text(value).body(), timeout());
  } catch (const StoreCutOff&) {
    check(in);
    store_is_gone();
  } catch (const StoreSilent&) {
    fail(0, message("rank 0 is silent: its store has not answered for ", timeout().count(), " ms"));
    throw_verdict(in);
  } catch (const CommError&) {
    check(in);
    throw;
  }
}

std::string StoreMembership::get(const std::string& key, Wait& wait) try {
  wait.check();
  constexpr int64_t kAsLongAsItTakes = int64_t{1000} * 3600 * 24;  // the wait has the deadline
  auto reply = client_->ask(StoreOp::get, FrameWriter().text(key).number(kAsLongAsItTakes).body());
  while (reply.wait_for(wait.nap()) != std::future_status::ready) wait.check();
  return reply.get().value();
} catch (const StoreCutOff&) {
  wait.check();
  store_is_gone();
} catch (const CommError&) {
  wait.check();
  throw;
}

void StoreMembership::store_is_gone() {
  throw CommError("rank 0, whose store holds the group's keys, has left the group", 0);
}

void StoreMembership::tell_all(int culprit, const std::string& why) {
  const std::string body = FrameWriter().number(culprit).text(why).body();
  try {
    if (failed() || client_->on_own_thread()) return client_->post(StoreOp::report, body);
    client_->request(StoreOp::report, body, kAnswerTime);
  } catch (const CommError&) {
    // It has ended, or a verdict came first.
  }
  fail(culprit, why);
}

bool StoreMembership::has_judge() const {
  std::lock_guard lock(state_mutex_);
  return why_ended_.empty() || !master_left_;  // where rank 0 has died, that is the verdict
}

void StoreMembership::ask(const Channel& channel, const std::string& what, bool only_for_silence) {
  FrameWriter question;
  question.number(channel.id).text(what).number(only_for_silence).number(int64_t(channel.members.size()));
  for (int m : channel.members) question.number(m);
  bool nobody_to_ask = false;
  {
    std::lock_guard lock(state_mutex_);
    nobody_to_ask = !why_ended_.empty();
    if (!asked_) {
      asked_ = Clock::now();
      asked_for_ = what;
    }
  }
  if (nobody_to_ask) return fail(-1, message("[", what, "] rank 0, whose store could tell who is to blame, has left"));
  client_->post(StoreOp::who, question.body());
}

void StoreMembership::on_verdict(int culprit, const std::string& why) {
  blame_process(culprit < 0 ? culprit : culprit / options_.ranks_of_process, why);
}

// Nobody goes on waiting for an answer.
void StoreMembership::interrupt_client() {
  const auto [culprit, why] = verdict();
  client_->interrupt(culprit, why);
}

void StoreMembership::told(StoreOp op, FrameReader& body) {
  if (op == StoreOp::verdict) {
    const int culprit = int(body.number(-1, kMaxWorldSize));
    const std::string why = body.text();
    fail(culprit, why);
    interrupt_client();  // it may be another one than where this came before
  } else if (op == StoreOp::left) {
    const int member = int(body.number(0, size() - 1));
    const std::string reason = body.text();
    CompletedByChannel completed = read_completed(body);
    if (member == rank()) return;
    if (member == 0) {
      std::lock_guard lock(state_mutex_);
      master_left_ = true;
    }
    left(member, std::move(completed), reason);
  } else if (op == StoreOp::alive) {
    std::lock_guard lock(state_mutex_);
    asked_.reset();
  } else if (op == StoreOp::roll_call) {
    log(LogLevel::warning, message("[rendezvous] rank ", rank(), " waits for ", body.text()));
  }
}

void StoreMembership::connection_ended(const std::string& why) {
  {
    std::lock_guard lock(state_mutex_);
    why_ended_ = why;
    if (!joined_ || left_ || master_left_) return;
  }
  fail(0, message("rank 0 has died: the connection to its store ended (", why, ")"));
}

void StoreMembership::beat() {
  {
    std::lock_guard lock(state_mutex_);
    if (!joined_ || left_ || !why_ended_.empty() || failed()) return;
  }
  FrameWriter progress;
  int64_t changed = 0;
  for (auto& c : channels()) {
    const std::pair now(c->sequence.load(), c->steps.load());
    auto [known, is_new] = told_.try_emplace(c->id, now);
    if (!is_new && known->second == now) continue;
    known->second = now;
    ++changed;
    progress.number(c->id).number(int64_t(now.first)).number(now.second).text(c->name);
  }
  client_->post(StoreOp::beat, FrameWriter().number(changed).body() + progress.body());

  std::string unanswered;
  {
    std::lock_guard lock(state_mutex_);
    if (asked_ && Clock::now() - *asked_ > kStoreSilence) unanswered = asked_for_;
  }
  if (!unanswered.empty()) fail(0, message("[", unanswered, "] rank 0 is silent: its store does not answer"));
}

}  // namespace tandem
