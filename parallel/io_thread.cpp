#include <tandem/core/error.h>
#include <tandem/parallel/io_thread.h>

#include <openssl/crypto.h>
#include <asio.hpp>

#include <set>

namespace tandem {
namespace {

// Never destroyed: a group may end after static objects have.
struct Running {
  std::mutex mutex;
  std::set<IoThread*> threads;
  bool process_ends = false;
};
Running& running() {
  static auto& r = *new Running;
  return r;
}

// Ends after the static objects of programs, whose groups still say goodbye, since it is made before them; and before
// what a serving thread uses of Asio and OpenSSL, since that is made before it.
struct AtExit {
  AtExit() {
    // Whatever is asked for (this costs nothing) has OpenSSL end where this call stands among the objects.
    OPENSSL_init_crypto(OPENSSL_INIT_ATFORK, nullptr);
    asio::error::get_system_category();
    asio::error::get_netdb_category();
    asio::error::get_addrinfo_category();
    asio::error::get_misc_category();
  }
  ~AtExit() {
    std::lock_guard lock(running().mutex);
    running().process_ends = true;
    for (IoThread* t : running().threads) t->stop();
  }
};
// The priority is for a static library, which has no order among its own objects and a program's.
[[gnu::init_priority(101)]] AtExit at_exit;

}  // namespace

IoThread::IoThread(std::function<void()> run, std::function<void()> interrupt) : interrupt_(std::move(interrupt)) {
  std::lock_guard lock(running().mutex);
  check<CommError>(!running().process_ends, "the process is ending, and serves no connections any more");
  thread_ = std::thread(std::move(run));
  running().threads.insert(this);
}

IoThread::~IoThread() {
  stop();
  std::lock_guard lock(running().mutex);
  running().threads.erase(this);
}

void IoThread::stop() {
  std::lock_guard lock(mutex_);
  if (!thread_.joinable()) return;
  interrupt_();
  if (thread_.get_id() == std::this_thread::get_id())  // it called exit() itself
    thread_.detach();
  else
    thread_.join();
  stopped_ = true;
}

}  // namespace tandem
