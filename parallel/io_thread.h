/// Not installed. IoThread: a thread that serves connections. It goes on while a program's static objects end, a group
/// among them says goodbye, and ends before the library's own: where exit() is called with a group alive, its part in
/// it ends there, since what the thread uses (Asio's static objects, say) ends next.
#pragma once
#include <atomic>
#include <functional>
#include <mutex>
#include <thread>

namespace tandem {

class IoThread {
 public:
  /// `run` returns soon after `interrupt`, which may be called from any thread. Throws CommError where the process is
  /// ending.
  IoThread(std::function<void()> run, std::function<void()> interrupt);
  ~IoThread();
  IoThread(const IoThread&) = delete;
  IoThread& operator=(const IoThread&) = delete;

  /// Interrupts it and returns when it has ended. Called again, does nothing.
  void stop();
  bool has_stopped() const { return stopped_.load(std::memory_order_acquire); }

 private:
  const std::function<void()> interrupt_;
  std::mutex mutex_;
  std::thread thread_;
  std::atomic<bool> stopped_{false};
};

}  // namespace tandem
