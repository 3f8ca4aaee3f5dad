#include <tandem/parallel/io_thread.h>
#include <tandem/parallel/store_client.h>
#include <tandem/parallel/tcp_socket.h>

#include <asio.hpp>

#include <atomic>
#include <deque>
#include <future>
#include <map>
#include <mutex>
#include <optional>
#include <system_error>
#include <thread>

namespace tandem {
namespace {

constexpr std::chrono::milliseconds kTick{50};

asio::ip::tcp protocol_of(int fd) {
  return local_address(fd).family() == AF_INET6 ? asio::ip::tcp::v6() : asio::ip::tcp::v4();
}

}  // namespace

class StoreClient::Impl {
 public:
  Impl(Descriptor fd, StoreEvents events) : events_(std::move(events)), socket_(io_), timer_(io_) {
    socket_.assign(protocol_of(fd.get()), fd.get());
    fd.release();
    read();
    tick();
  }
  ~Impl() { stop(); }

  void start() {
    auto run = [this] {
      own_thread_ = std::this_thread::get_id();
      io_.run();
    };
    thread_ = std::make_unique<IoThread>(run, [this] { io_.stop(); });
  }

  void stop() {
    if (thread_) thread_->stop();
    std::lock_guard lock(mutex_);
    if (!ended_) ended_ = {StoreReply::Kind::cut_off, "[store] the connection has been closed"};
    end_pending(*ended_);
  }

  std::future<StoreReply> ask(StoreOp op, const std::string& body) {
    std::lock_guard lock(mutex_);
    const auto& end = interrupted_ && op != StoreOp::goodbye ? interrupted_ : ended_;
    if (end) {
      std::promise<StoreReply> at_once;
      at_once.set_value(*end);
      return at_once.get_future();
    }
    send(to_frame(op, ++last_id_, body));
    Pending& p = pending_[last_id_];
    p.op = op;
    return p.reply.get_future();
  }

  void send(std::string frame) {
    asio::post(io_, [this, frame = std::move(frame)]() mutable {
      outgoing_.push_back(std::move(frame));
      if (outgoing_.size() == 1) write();
    });
  }

  void interrupt(int culprit, const std::string& why) {
    std::lock_guard lock(mutex_);
    if (!interrupted_) interrupted_ = {StoreReply::Kind::interrupted, why, culprit};
    end_pending(*interrupted_, false);
  }

  bool on_own_thread() const { return std::this_thread::get_id() == own_thread_; }

 private:
  struct Pending {
    StoreOp op{};
    std::promise<StoreReply> reply = {};
  };

  void end_pending(const StoreReply& end, bool goodbyes = true) {
    for (auto it = pending_.begin(); it != pending_.end();) {
      const bool ends = goodbyes || it->second.op != StoreOp::goodbye;
      if (ends) it->second.reply.set_value(end);
      it = ends ? pending_.erase(it) : std::next(it);
    }
  }

  void write() {
    asio::async_write(socket_, asio::buffer(outgoing_.front()), [this](asio::error_code error, size_t) {
      if (error) {
        outgoing_.clear();  // the reading side tells of the end
        return;
      }
      outgoing_.pop_front();
      if (!outgoing_.empty()) write();
    });
  }

  void read() {
    asio::async_read(socket_, asio::buffer(&head_, sizeof head_), [this](asio::error_code error, size_t) {
      if (error) return ended(error.message());
      if (head_.bytes > kMaxFrameBytes) return ended("it sent too long a frame");
      body_.resize(head_.bytes);
      asio::async_read(socket_, asio::buffer(body_), [this](asio::error_code error, size_t) {
        if (error) return ended(error.message());
        try {
          handle();
        } catch (const Error& e) {
          return ended(message("it sent what is no answer: ", e.what()));
        }
        read();
      });
    });
  }

  void handle() {
    if (head_.op != StoreOp::ok && head_.op != StoreOp::refused && head_.op != StoreOp::again) {
      FrameReader reader(body_);
      if (events_.told) events_.told(head_.op, reader);
      return;
    }
    std::lock_guard lock(mutex_);
    const auto it = pending_.find(head_.id);
    if (it == pending_.end()) return;  // whoever asked has given up
    if (head_.op == StoreOp::ok)
      it->second.reply.set_value({StoreReply::Kind::value, body_});
    else if (head_.op == StoreOp::refused)
      it->second.reply.set_value({StoreReply::Kind::refused, "[store] " + body_});
    else
      it->second.reply.set_value(
          {StoreReply::Kind::cut_off, "[store] an earlier attempt to form this group has not ended yet"});
    pending_.erase(it);
  }

  void ended(const std::string& why) {
    asio::error_code ignored;
    socket_.close(ignored);
    if (events_.ended) events_.ended(why);  // before anybody who asks finds out
    std::lock_guard lock(mutex_);
    ended_ = {StoreReply::Kind::cut_off, message("[store] the connection to rank 0's store ended (", why, ")")};
    end_pending(*ended_);
  }

  void tick() {
    timer_.expires_after(kTick);
    timer_.async_wait([this](asio::error_code error) {
      if (error) return;
      if (events_.tick) events_.tick();
      tick();
    });
  }

  const StoreEvents events_;
  asio::io_context io_{1};
  asio::ip::tcp::socket socket_;
  asio::steady_timer timer_;
  // The thread's own.
  FrameHead head_;
  std::string body_;
  std::deque<std::string> outgoing_;
  // Shared with those who ask.
  std::mutex mutex_;
  std::map<uint64_t, Pending> pending_;
  uint64_t last_id_ = 0;
  std::optional<StoreReply> interrupted_, ended_;  // what all later requests come to
  std::atomic<std::thread::id> own_thread_{};
  std::unique_ptr<IoThread> thread_;
};

const std::string& StoreReply::value() const {
  if (kind == Kind::cut_off) throw StoreCutOff(text);
  if (kind != Kind::value) throw CommError(text, culprit);
  return text;
}

StoreClient::StoreClient(Descriptor connection, StoreEvents events) try
    : local_host_(host_of(local_address(connection.get()))),
      impl_(std::make_unique<Impl>(std::move(connection), std::move(events))) {
} catch (const std::system_error& e) {
  throw CommError(message("[store] a connection can't be served: ", e.what()));
}
StoreClient::~StoreClient() = default;

std::string StoreClient::request(StoreOp op, const std::string& body, std::chrono::milliseconds patience) {
  std::future<StoreReply> reply = ask(op, body);
  if (reply.wait_for(patience) != std::future_status::ready)
    throw StoreSilent(message("[store] rank 0's store has not answered for ", patience.count(), " ms"));
  return reply.get().value();
}
std::future<StoreReply> StoreClient::ask(StoreOp op, const std::string& body) { return impl_->ask(op, body); }
void StoreClient::start() { impl_->start(); }
void StoreClient::stop() { impl_->stop(); }
void StoreClient::post(StoreOp op, const std::string& body) { impl_->send(to_frame(op, 0, body)); }
void StoreClient::interrupt(int culprit, const std::string& why) { impl_->interrupt(culprit, why); }
bool StoreClient::on_own_thread() const { return impl_->on_own_thread(); }

}  // namespace tandem
