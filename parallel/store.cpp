#include <tandem/parallel/store.h>
#include <tandem/parallel/store_client.h>
#include <tandem/parallel/store_connection.h>
#include <tandem/parallel/store_server.h>

#include <algorithm>
#include <condition_variable>
#include <mutex>
#include <thread>

namespace tandem {
namespace {

using Clock = std::chrono::steady_clock;
using std::chrono::milliseconds;

// What the store itself needs to say that a key was not set in time.
constexpr milliseconds kAnswerTime{1000};
constexpr milliseconds kAttemptPause{10};

}  // namespace

struct Store::Impl {
  StoreOptions options;
  std::string token;
  std::shared_ptr<StoreServer> server;  // where this process serves
  std::mutex mutex;
  std::condition_variable changed;
  bool connecting = false;  // one of those who ask; the others have deadlines of their own
  std::shared_ptr<StoreClient> client;

  std::shared_ptr<StoreClient> connected(Clock::time_point deadline) {
    std::unique_lock lock(mutex);
    if (!changed.wait_until(lock, deadline, [&] { return !connecting; }))
      throw StoreSilent("[store] the store could not be reached again in time");
    if (client) return client;
    connecting = true;
    struct Done {
      Impl& impl;
      std::unique_lock<std::mutex>& lock;
      ~Done() {
        if (!lock) lock.lock();
        impl.connecting = false;
        impl.changed.notify_all();
      }
    } done{*this, lock};
    lock.unlock();
    const StoreAddress address{options.host, options.port};
    auto made = std::make_shared<StoreClient>(
        connect_to_store([&](std::string&) { return address; }, token, deadline, "this process"), StoreEvents{});
    made->start();
    lock.lock();
    return client = std::move(made);
  }

  // A request that may be made twice is made again where the connection ends before the answer.
  std::string request(StoreOp op, const std::string& body, milliseconds timeout, bool repeatable) {
    const auto deadline = Clock::now() + timeout;
    for (;;) {
      const std::shared_ptr<StoreClient> c = connected(deadline);
      const auto left = std::chrono::ceil<milliseconds>(deadline - Clock::now());
      try {
        return c->request(op, body, std::max(left, milliseconds(0)) + kAnswerTime);
      } catch (const StoreCutOff&) {
        {
          std::lock_guard lock(mutex);
          if (client == c) client.reset();
        }
        if (!repeatable || Clock::now() >= deadline) throw;
        std::this_thread::sleep_for(kAttemptPause);
      }
    }
  }

  FrameWriter about(const std::string& key) const { return std::move(FrameWriter().text(options.prefix + key)); }
  milliseconds time(Timeout given) const { return given < milliseconds(0) ? options.timeout : given; }
};

Store::Store(const StoreOptions& options) : impl_(std::make_unique<Impl>()) {
  impl_->options = options;
  impl_->token = token_from_environment();
  if (options.is_master) {
    impl_->server = StoreServer::at(options.host, options.port, impl_->token);
    impl_->options.port = impl_->server->port();
  }
  impl_->connected(Clock::now() + options.timeout);
}
Store::~Store() = default;
Store::Store(Store&&) noexcept = default;
Store& Store::operator=(Store&&) noexcept = default;

int Store::port() const { return impl_->options.port; }

void Store::set(const std::string& key, const std::string& value, Timeout timeout) {
  impl_->request(StoreOp::set, impl_->about(key).text(value).body(), impl_->time(timeout), true);
}

std::string Store::get(const std::string& key, Timeout timeout) {
  const auto time = impl_->time(timeout);
  return impl_->request(StoreOp::get, impl_->about(key).number(time.count()).body(), time, true);
}

void Store::wait(const std::vector<std::string>& keys, Timeout timeout) {
  const auto deadline = Clock::now() + impl_->time(timeout);
  for (auto& key : keys) get(key, std::max(std::chrono::ceil<milliseconds>(deadline - Clock::now()), milliseconds(0)));
}

int64_t Store::add(const std::string& key, int64_t amount, Timeout timeout) {
  return std::stoll(impl_->request(StoreOp::add, impl_->about(key).number(amount).body(), impl_->time(timeout), false));
}

std::string Store::compare_set(const std::string& key, const std::string& expected, const std::string& desired,
                               Timeout timeout) {
  return impl_->request(StoreOp::compare_set, impl_->about(key).text(expected).text(desired).body(),
                        impl_->time(timeout), false);
}

}  // namespace tandem
