/// Not installed. DeviceWatch: collectives that a device is carrying out have deadlines, too. A thread looks after
/// them: where a member has died, or does not come, what is under way is ended, on the device as well.
#pragma once
#include <tandem/parallel/device_engine.h>
#include <tandem/parallel/membership.h>

#include <condition_variable>
#include <deque>
#include <thread>

namespace tandem {

class DeviceWatch {
 public:
  DeviceWatch(std::shared_ptr<Membership> membership, std::shared_ptr<Channel> channel,
              std::shared_ptr<DeviceEngine> engine);
  /// What is under way must have been aborted.
  ~DeviceWatch();
  DeviceWatch(const DeviceWatch&) = delete;
  DeviceWatch& operator=(const DeviceWatch&) = delete;

  /// Its tensors are kept until it is completed.
  void add(std::shared_ptr<Launched> work, const Header& header, const std::string& label,
           std::chrono::milliseconds timeout, std::vector<Tensor> tensors);
  /// Returns when all is completed, or has been ended.
  void drain();

 private:
  struct Item {
    Header header;
    std::string label;
    Wait wait;
    std::shared_ptr<Launched> work;
    std::vector<Tensor> tensors;
    Item(Membership& m, Channel& c, const Header& h, const std::string& l, std::chrono::milliseconds timeout,
         std::shared_ptr<Launched> w, std::vector<Tensor> t)
        : header(h), label(l), wait(m, c, header, label, timeout), work(std::move(w)), tensors(std::move(t)) {}
  };
  void look();
  bool is_over(Item& item);

  const std::shared_ptr<Membership> membership_;
  const std::shared_ptr<Channel> channel_;
  const std::shared_ptr<DeviceEngine> engine_;
  std::mutex mutex_;
  std::condition_variable changed_;
  std::deque<std::unique_ptr<Item>> items_;
  bool stop_ = false;
  std::thread thread_;  // started at the first item
};

}  // namespace tandem
