#include <tandem/parallel/io_thread.h>
#include <tandem/parallel/log_limiter.h>
#include <tandem/parallel/store_group.h>
#include <tandem/parallel/store_server.h>
#include <tandem/parallel/tcp_socket.h>

#include <asio.hpp>

#include <algorithm>
#include <cstring>
#include <deque>
#include <future>
#include <mutex>
#include <set>
#include <system_error>
#include <thread>

namespace tandem {
namespace {

using std::chrono::milliseconds;

constexpr milliseconds kTick{20};
// The ticks of a store that was stopped, or had no core for a while, are further apart than this.
constexpr milliseconds kStoodStill{250};
constexpr milliseconds kGreetingTime{2000};
constexpr size_t kMostUnproven = 64;
// After accept failed, for want of descriptors for instance.
constexpr milliseconds kAcceptPause{50};
// A server of this process at the same address may be about to end.
constexpr milliseconds kBindPatience{1000};

asio::ip::tcp protocol_of(int fd) {
  return local_address(fd).family() == AF_INET6 ? asio::ip::tcp::v6() : asio::ip::tcp::v4();
}

SocketAddress address_to_serve(const std::string& host, int port, const std::string& token) {
  const SocketAddress a = resolve(host, port)[0];
  check<CommError>(!token.empty() || is_loopback(a), "[store] ", host, " (", a,
                   ") can be reached from other machines, and there is no token to keep strangers out: export "
                   "TANDEM_TOKEN, any long random text, the same for all ranks");
  return a;
}

Descriptor listen_patiently(const SocketAddress& a) {
  const auto until = Clock::now() + kBindPatience;
  for (;;) try {
      return listen_at(a);
    } catch (const CommError&) {
      if (Clock::now() > until) throw;
      std::this_thread::sleep_for(milliseconds(10));
    }
}

}  // namespace

// Everything here runs on the server's thread, its construction and `finish` apart.
class StoreServer::Impl {
 public:
  Impl(Descriptor listener, std::string token, Nonce identity)
      : listener_(io_), timer_(io_), token_(std::move(token)), identity_(identity) {
    listener_.assign(listener.get());
    listener.release();
    accept_when_ready();
    tick();
    thread_ = std::make_unique<IoThread>([this] { io_.run(); }, [this] { io_.stop(); });
  }
  ~Impl() { thread_->stop(); }

  void finish(int64_t number, milliseconds grace) {
    auto done = std::make_shared<std::promise<void>>();
    asio::post(io_, [this, number, grace, done] {
      finishing_.push_back({number, Clock::now() + grace, done});
      finish_what_is_settled();
    });
    auto told = done->get_future();
    while (told.wait_for(kTick) != std::future_status::ready && !thread_->has_stopped()) {
    }
  }

 private:
  class Connection;
  using ConnectionPtr = std::shared_ptr<Connection>;

  void accept_when_ready() {
    listener_.async_wait(asio::posix::stream_descriptor::wait_read, [this](asio::error_code error) {
      if (!error) accept_all();
    });
  }

  void accept_all() {
    while (Descriptor fd = accept_at(listener_.native_handle())) admit(std::move(fd));
    if (errno == EAGAIN || errno == EWOULDBLOCK || errno == ECONNABORTED || errno == EINTR) return accept_when_ready();
    refusals_.warn(message("[store] no connection can be accepted: ", std::strerror(errno)));
    accept_again_ = Clock::now() + kAcceptPause;
  }

  void admit(Descriptor fd);
  void drop_unproven(const ConnectionPtr& c) { std::erase(unproven_, c); }

  void handle(const ConnectionPtr& c, const FrameHead& head, const std::string& body);
  void join(const ConnectionPtr& c, uint64_t id, FrameReader& body);
  void ended(const ConnectionPtr& c, const std::string& why);

  void tick() {
    const auto now = Clock::now();
    if (now - last_tick_ > kStoodStill)
      for (auto& [number, g] : groups_) g.forgive_silence(now);
    last_tick_ = now;
    keys_.tick(now);
    for (auto& [number, g] : groups_) g.tick(now);
    close_half_open(now);
    if (accept_again_ && now >= *accept_again_) {
      accept_again_.reset();
      accept_all();
    }
    finish_what_is_settled();
    timer_.expires_after(kTick);
    timer_.async_wait([this](asio::error_code error) {
      if (!error) tick();
    });
  }

  void close_half_open(Clock::time_point now);

  void finish_what_is_settled() {
    std::erase_if(finishing_, [&](const Finishing& f) {
      const auto it = groups_.find(f.group);
      if (it != groups_.end()) {
        if (!it->second.settled() && Clock::now() < f.until) return false;
        it->second.close();
        if (it->second.complete()) ended_groups_.insert(f.group);
        groups_.erase(it);
      }
      f.done->set_value();
      return true;
    });
  }

  struct Finishing {
    int64_t group;
    Clock::time_point until;
    std::shared_ptr<std::promise<void>> done;
  };

  asio::io_context io_;
  asio::posix::stream_descriptor listener_;
  asio::steady_timer timer_;
  const std::string token_;
  const Nonce identity_;
  Clock::time_point last_tick_ = Clock::now();
  std::optional<Clock::time_point> accept_again_;
  LogLimiter refusals_;
  std::deque<ConnectionPtr> unproven_;  // oldest first
  StoreKeys keys_;                      // of clients that belong to no group
  std::map<int64_t, StoreGroup> groups_;
  std::set<int64_t> ended_groups_;
  int restarts_ = 0;  // of those who have joined
  std::vector<Finishing> finishing_;
  std::unique_ptr<IoThread> thread_;
};

class StoreServer::Impl::Connection : public StorePeer, public std::enable_shared_from_this<Connection> {
 public:
  Connection(Impl& server, Descriptor fd)
      : server_(server), from_(to_string(remote_address(fd.get()))), socket_(server.io_) {
    socket_.assign(protocol_of(fd.get()), fd.get());
    fd.release();
  }

  // The greeting: nothing is read that is longer than an answer, before the token is proved.
  void greet() {
    challenge_.nonce = make_nonce();
    asio::async_write(socket_, asio::buffer(&challenge_, sizeof challenge_),
                      [self = shared_from_this()](asio::error_code error, size_t) {
                        if (error) self->refuse("no greeting: " + error.message());
                      });
    asio::async_read(socket_, asio::buffer(&answer_, sizeof answer_),
                     [self = shared_from_this()](asio::error_code error, size_t) { self->prove_answer(error); });
  }

  void refuse(const std::string& why) {
    if (closed_) return;
    server_.refusals_.warn(message("[store] refused a connection from ", from_, ": ", why));
    close();
    server_.drop_unproven(shared_from_this());
  }

  void send(StoreOp op, uint64_t id, const std::string& body) override { send_bytes(to_frame(op, id, body)); }
  bool flushed() const override { return closed_ || outgoing_.empty(); }
  void close() override {
    closed_ = true;
    outgoing_.clear();
    asio::error_code ignored;
    socket_.close(ignored);
  }

  const Clock::time_point since = Clock::now();
  std::optional<int64_t> group;  // that it has joined

 private:
  void prove_answer(asio::error_code error) {
    if (closed_) return;
    if (error) return refuse("it went without an answer to the greeting");
    if (answer_.magic != kStoreMagic) return refuse("what it says is not for a store");
    StoreWelcome welcome;
    welcome.accepted =
        same_proof(answer_.proof, prove(server_.token_, kClientRole, challenge_.nonce, answer_.nonce)) ? 1 : 0;
    if (welcome.accepted) {
      welcome.identity = server_.identity_;
      welcome.proof = prove(server_.token_, kServerRole, answer_.nonce, challenge_.nonce);
    }
    const std::string bytes(reinterpret_cast<const char*>(&welcome), sizeof welcome);
    if (!welcome.accepted) {
      asio::error_code ignored;  // as much as the socket takes: it is a stranger's
      socket_.write_some(asio::buffer(bytes), ignored);
      return refuse("its token is not this group's");
    }
    server_.drop_unproven(shared_from_this());
    send_bytes(bytes);
    read();
  }

  void read() {
    asio::async_read(socket_, asio::buffer(&head_, sizeof head_),
                     [self = shared_from_this()](asio::error_code error, size_t) {
                       if (error) return self->end(error.message());
                       if (self->head_.bytes > kMaxFrameBytes) return self->end("it sent too long a frame");
                       self->read_body();
                     });
  }

  void read_body() {
    body_.resize(head_.bytes);
    asio::async_read(socket_, asio::buffer(body_), [self = shared_from_this()](asio::error_code error, size_t) {
      if (error) return self->end(error.message());
      try {
        self->server_.handle(self, self->head_, self->body_);
      } catch (const Error& e) {
        return self->end(message("it sent what is no request: ", e.what()));
      }
      if (!self->closed_) self->read();
    });
  }

  void end(const std::string& why) {
    close();
    server_.ended(shared_from_this(), why);
  }

  void send_bytes(std::string bytes) {
    if (closed_) return;
    outgoing_.push_back(std::move(bytes));
    if (outgoing_.size() == 1) write();
  }

  void write() {
    asio::async_write(socket_, asio::buffer(outgoing_.front()),
                      [self = shared_from_this()](asio::error_code error, size_t) {
                        if (self->closed_) return;
                        if (error) {
                          self->outgoing_.clear();  // the reading side tells of the end
                          return;
                        }
                        self->outgoing_.pop_front();
                        if (!self->outgoing_.empty()) return self->write();
                        self->server_.finish_what_is_settled();
                      });
  }

  Impl& server_;
  const std::string from_;
  asio::ip::tcp::socket socket_;
  StoreChallenge challenge_;
  StoreAnswer answer_;
  FrameHead head_;
  std::string body_;
  std::deque<std::string> outgoing_;
  bool closed_ = false;
};

void StoreServer::Impl::admit(Descriptor fd) {
  if (unproven_.size() >= kMostUnproven)
    unproven_.front()->refuse("too many have come without proving the token, and it is the oldest of them");
  try {
    auto c = std::make_shared<Connection>(*this, std::move(fd));
    unproven_.push_back(c);
    c->greet();
  } catch (const std::exception& e) {  // the system has no more to give: the others go on
    refusals_.warn(message("[store] a connection can't be served: ", e.what()));
  }
}

void StoreServer::Impl::close_half_open(Clock::time_point now) {
  while (!unproven_.empty() && now - unproven_.front()->since > kGreetingTime)
    unproven_.front()->refuse("it has said nothing for two seconds");
}

void StoreServer::Impl::handle(const ConnectionPtr& c, const FrameHead& head, const std::string& body) {
  FrameReader reader(body);
  if (head.op == StoreOp::join && !c->group) return join(c, head.id, reader);
  if (!c->group) {
    check<CommError>(keys_.handle(c, head.op, head.id, reader), "an unknown operation, ", int(head.op));
    return;
  }
  // A group that has ended closes its connections; what was under way then is of no interest.
  if (auto it = groups_.find(*c->group); it != groups_.end()) it->second.handle(c, head.op, head.id, reader);
  finish_what_is_settled();
}

void StoreServer::Impl::join(const ConnectionPtr& c, uint64_t id, FrameReader& body) {
  const JoinRequest request = JoinRequest::read(body);
  const int restarts = restarts_of(request.group);
  if (restarts < restarts_)
    return c->send(StoreOp::refused, id,
                   message("rank ", request.rank, " (", request.where, ") belongs to ", name_of_group(request.group),
                           ", and the ranks have been started again since: this is restart ", restarts_));
  if (restarts > restarts_)
    for (auto& [number, g] : groups_) g.outdated(request);
  restarts_ = restarts;
  if (ended_groups_.contains(request.group))
    return c->send(StoreOp::refused, id, message(name_of_group(request.group), " at this address has ended"));
  c->group = request.group;
  groups_.try_emplace(request.group, request.group).first->second.join(c, id, request);
}

void StoreServer::Impl::ended(const ConnectionPtr& c, const std::string& why) {
  keys_.forget(c.get());
  if (!c->group) return;
  if (auto it = groups_.find(*c->group); it != groups_.end()) it->second.lost(c.get(), why);
  finish_what_is_settled();
}

StoreServer::StoreServer(const std::string& host, int port, std::string token) try : token_(std::move(token)) {
  Descriptor listener = listen_patiently(address_to_serve(host, port, token_));
  const SocketAddress here = local_address(listener.get());
  const Nonce identity = make_nonce();
  host_ = host_of(here);
  port_ = port_of(here);
  identity_ = to_hex(identity);
  impl_ = std::make_unique<Impl>(std::move(listener), token_, identity);
} catch (const std::system_error& e) {
  throw CommError(message("[store] ", host, ":", port, " can't be served: ", e.what()));
}

StoreServer::~StoreServer() = default;

std::shared_ptr<StoreServer> StoreServer::at(const std::string& host, int port, const std::string& token) {
  // Never destroyed: a group may end after static objects have.
  static auto& mutex = *new std::mutex;
  static auto& servers = *new std::map<std::string, std::weak_ptr<StoreServer>>;
  std::lock_guard lock(mutex);
  std::erase_if(servers, [](auto& entry) { return entry.second.expired(); });
  if (port != 0)
    if (auto it = servers.find(to_string(resolve(host, port)[0])); it != servers.end())
      if (auto running = it->second.lock()) {
        check<CommError>(running->token_ == token, "[store] ", host, ":", port, " is served with another token");
        return running;
      }
  std::shared_ptr<StoreServer> made(new StoreServer(host, port, token));
  servers[to_string(resolve(made->host_, made->port_)[0])] = made;
  return made;
}

void StoreServer::finish(int64_t group, milliseconds grace) { impl_->finish(group, grace); }

}  // namespace tandem
