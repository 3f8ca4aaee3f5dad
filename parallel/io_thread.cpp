#include <tandem/core/error.h>
#include <tandem/parallel/io_thread.h>

#include <asio.hpp>

#include <set>

namespace tandem {
namespace {

// Never destroyed: a thread may be ended after static objects have been.
struct Running {
  std::mutex mutex;
  std::set<IoThread*> threads;
  bool process_ends = false;
};
Running& running() {
  static auto& r = *new Running;
  return r;
}

struct AtExit {
  ~AtExit() {
    std::lock_guard lock(running().mutex);
    running().process_ends = true;
    for (IoThread* t : running().threads) t->stop();
  }
};

// The static objects that a serving thread uses are made before AtExit is, so that they end after it has.
void prepare_end() {
  asio::error::get_system_category();
  asio::error::get_netdb_category();
  asio::error::get_addrinfo_category();
  asio::error::get_misc_category();
  static AtExit at_exit;
}

}  // namespace

IoThread::IoThread(std::function<void()> run, std::function<void()> interrupt) : interrupt_(std::move(interrupt)) {
  prepare_end();
  std::lock_guard lock(running().mutex);
  check<CommError>(!running().process_ends, "the process is ending, and serves no connections any more");
  thread_ = std::thread(std::move(run));
  running().threads.insert(this);
}

IoThread::~IoThread() {
  {
    std::lock_guard lock(running().mutex);
    running().threads.erase(this);
  }
  stop();
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
