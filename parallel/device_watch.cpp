#include <tandem/parallel/device_watch.h>
#include <tandem/parallel/error_text.h>

namespace tandem {
namespace {

constexpr std::chrono::milliseconds kPause{2};  // between two looks at the same item
// For the device to end what was aborted: its memory is in use until then.
constexpr std::chrono::milliseconds kAbortPatience{1000};

void await_end(Launched& work) try {
  const auto until = Clock::now() + kAbortPatience;
  while (!work.is_completed() && Clock::now() < until) std::this_thread::sleep_for(kPause);
} catch (const Error&) {  // of a device that has failed
}

}  // namespace

DeviceWatch::DeviceWatch(std::shared_ptr<Membership> membership, std::shared_ptr<Channel> channel,
                         std::shared_ptr<DeviceEngine> engine)
    : membership_(std::move(membership)), channel_(std::move(channel)), engine_(std::move(engine)) {}

DeviceWatch::~DeviceWatch() {
  {
    std::lock_guard lock(mutex_);
    stop_ = true;
    changed_.notify_all();
  }
  if (thread_.joinable()) thread_.join();
  if (!items_.empty()) await_end(*items_.back()->work);
}

void DeviceWatch::add(std::shared_ptr<Launched> work, const Header& header, const std::string& label,
                      std::chrono::milliseconds timeout, std::vector<Tensor> tensors) {
  auto item =
      std::make_unique<Item>(*membership_, *channel_, header, label, timeout, std::move(work), std::move(tensors));
  std::lock_guard lock(mutex_);
  items_.push_back(std::move(item));
  if (!thread_.joinable()) thread_ = std::thread([this] { look(); });
  changed_.notify_all();
}

void DeviceWatch::drain() {
  std::unique_lock lock(mutex_);
  changed_.wait(lock, [&] { return items_.empty(); });
}

void DeviceWatch::look() {
  std::unique_lock lock(mutex_);
  for (;;) {
    changed_.wait(lock, [&] { return stop_ || !items_.empty(); });
    if (stop_) return;
    Item& first = *items_.front();  // only this thread takes items away
    lock.unlock();
    std::unique_ptr<Item> over;
    const bool gone = is_over(first);
    lock.lock();
    if (gone) {
      over = std::move(items_.front());
      items_.pop_front();
      changed_.notify_all();
      lock.unlock();
      over.reset();  // its tensors go back to their pools
      lock.lock();
    } else {
      changed_.wait_for(lock, kPause, [&] { return stop_; });
    }
  }
}

// Completed, or ended since the group has failed. What the device says of its peers has a cause elsewhere most often,
// which the verdict knows.
bool DeviceWatch::is_over(Item& item) try {
  if (item.work->is_completed()) return true;
  item.wait.check();
  const std::string error = engine_->error();
  if (!error.empty()) item.wait.broken_device(error);
  return false;
} catch (...) {
  const std::string why = error_text(std::current_exception());
  membership_->report(membership_->rank(),
                      message("[", item.header, "] failed on rank ", membership_->rank(), "'s device: ", why));
  engine_->abort(why);
  await_end(*item.work);
  return true;
}

}  // namespace tandem
