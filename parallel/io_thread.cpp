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

// Made when the shared library is loaded, before the static objects of programs, so that it ends after them and their
// groups still say goodbye; and after what a serving thread uses of Asio and OpenSSL, so that it ends before that.
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
AtExit at_exit;

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
