/// Not installed. NcclEngine: collectives among GPUs by NCCL, on a stream of their own. NCCL works without blocking: a
/// call that has to wait for others is asked after, so that deadlines and verdicts end it.
#pragma once
#include <nccl.h>
#include <tandem/core/backend.h>
#include <tandem/parallel/device_engine.h>

#include <mutex>
#include <optional>

namespace tandem::nccl_impl {

class NcclEngine final : public DeviceEngine {
 public:
  NcclEngine(Device d, const DeviceEngines::Key& key, int rank, int size, const Check& check);
  ~NcclEngine() override;

  std::shared_ptr<Launched> launch(const Collective& c, std::optional<double> factor, Launched& ready,
                                   const Check& check) override;
  std::shared_ptr<Launched> mark() override;
  bool is_capturing() const override;
  std::string error() override;
  void abort(const std::string& lost_because = {}) override;

 private:
  template <class F>
  void call(const std::string& name, const Check& check, F&& f);
  void reduce(const Collective& c, std::optional<double> factor, const Check& check);
  void exchange(const Collective& c, const Check& check);

  const Device device_;
  const int rank_, size_;
  Stream& stream_;  // borrowed
  std::mutex mutex_;
  ncclComm_t comm_ = nullptr;  // null once aborted
};

}  // namespace tandem::nccl_impl
