#include <tandem/core/backend.h>
#include <tandem/core/log.h>
#include <tandem/core/step_graph.h>
#include <tandem/core/timeline.h>
#include <tandem/ops/view.h>
#include <tandem/parallel/device_communicator.h>
#include <tandem/parallel/error_text.h>

#include <algorithm>
#include <atomic>
#include <cstring>

namespace tandem {
namespace {

Device device_of(const Collective& c) { return c.in ? c.in.device() : c.out ? c.out.device() : cpu(); }

// Filled in when it is queued.
using Slot = std::shared_ptr<std::shared_ptr<Launched>>;

// A Work of which the host has done its part when it is queued: who waits for it goes on after it on the device.
class QueuedWork final : public WorkState {
 public:
  QueuedWork(Work host, Slot launched, std::shared_ptr<Membership> membership)
      : host_(std::move(host)), launched_(std::move(launched)), membership_(std::move(membership)) {}
  bool is_completed() const override { return host_.is_completed() && (error() || (*launched_)->is_completed()); }
  std::exception_ptr error() const override {
    if (!host_.is_completed()) return nullptr;
    if (auto e = host_.error()) return e;
    try {
      membership_->check();
    } catch (...) {
      return std::current_exception();
    }
    return nullptr;
  }
  void wait() const override {
    std::exception_ptr error;
    try {
      host_.wait();
      membership_->check();
    } catch (...) {
      error = std::current_exception();
    }
    if (!error) return (*launched_)->join();
    // The caller may free what the device still uses.
    if (*launched_) try {
        (*launched_)->join();
      } catch (const Error&) {  // of a device that has failed, too
      }
    std::rethrow_exception(error);
  }

 private:
  const Work host_;
  const Slot launched_;
  const std::shared_ptr<Membership> membership_;
};

}  // namespace

// Captured steps hold it, too: what they replay needs the engine, even after the communicator.
struct DeviceCommunicator::Engine {
  Device device;
  std::shared_ptr<DeviceEngine> engine;
  std::unique_ptr<DeviceWatch> watch;
  std::atomic<bool> ended{false};
  std::weak_ptr<const StepCapture*> capture;  // the last one that this takes part in
};

DeviceCommunicator::DeviceCommunicator(std::shared_ptr<Membership> membership, std::shared_ptr<Channel> channel,
                                       std::unique_ptr<HostCommunicator> host, DeviceTransport transport)
    : Communicator(host->rank(), host->size()),
      membership_(std::move(membership)),
      channel_(std::move(channel)),
      host_(std::move(host)),
      transport_(transport) {}

DeviceCommunicator::~DeviceCommunicator() {
  host_ = nullptr;  // says so where collectives are under way that some member has not asked for; all others end
  for (auto& [_, e] : engines_) {
    if (!e) continue;
    if (!membership_->failed()) e->watch->drain();
    if (membership_->failed()) e->engine->abort();
    e->ended = true;
    e->watch = nullptr;
  }
}

void DeviceCommunicator::abort(const std::string& why) {
  const int me = membership_->rank();
  membership_->report(me, message("rank ", me, " has ended the group: ", why));
}

void DeviceCommunicator::do_run(const Collective& c) {
  auto e = engine_for(c);
  if (!e) return host_->run(c);
  const auto ready = e->engine->mark();
  host_->run_agreed(c, [&](const Header& h) { launch(e, c, h, *ready)->join(); });
}

// On the host's lane, which waits for the members' agreement. A captured step is recorded by one thread.
Work DeviceCommunicator::do_start(Collective c) {
  auto e = engine_for(c);
  if (!e) return host_->start(std::move(c));
  const Slot slot = std::make_shared<std::shared_ptr<Launched>>();
  const auto ready = e->engine->mark();
  Work host;
  if (e->engine->is_capturing())
    host_->run_agreed(c, [&](const Header& h) { *slot = launch(e, c, h, *ready); });
  else
    host = host_->start_agreed(std::move(c), [this, slot, e, ready](const Collective& c, const Header& h) {
      *slot = launch(e, c, h, *ready);
    });
  return Work(std::make_shared<QueuedWork>(std::move(host), slot, membership_));
}

std::shared_ptr<Launched> DeviceCommunicator::launch(const std::shared_ptr<Engine>& e, const Collective& c,
                                                     const Header& header, Launched& ready) {
  const auto timeout = c.timeout.count() ? c.timeout : membership_->timeout();
  Wait wait(*membership_, *channel_, header, c.label, timeout);
  const bool here = header.weighted && !(c.premultiply && !c.premultiply.device().is_cpu());
  const auto factor = here ? std::optional(header.skip ? 0 : header.weight) : std::nullopt;
  std::shared_ptr<Launched> launched;
  try {
    launched = e->engine->launch(c, factor, ready, [&] { wait.check(); });
  } catch (const CommError& error) {
    wait.broken_device(error.what());
  } catch (...) {
    abort(message(to_string(c.kind), " on ", e->device, ": ", error_text(std::current_exception())));
    throw;
  }
  if (c.out && (c.kind != Collective::Kind::reduce || rank() == c.peer)) c.out.storage()->bump();
  if (StepCapture* capture = StepCapture::current(); capture && e->engine->is_capturing())
    join_capture(*capture, e);
  else
    e->watch->add(launched, header, c.label, timeout, {c.in, c.out});
  return launched;
}

// No rank launches before all have captured; and each launch is watched as one collective.
void DeviceCommunicator::join_capture(StepCapture& capture, const std::shared_ptr<Engine>& e) {
  if (auto last = e->capture.lock(); last && *last == &capture) return;
  auto mine = std::make_shared<const StepCapture*>(&capture);  // lives as long as the capture does
  e->capture = mine;
  capture.before_replay([this, e, mine, first = true]() mutable {
    check(!e->ended, "[StepGraph] the captured step has collectives of a communicator that has ended");
    membership_->check("replaying a captured step");
    if (std::exchange(first, false)) host_->barrier({.label = "captured step"});
    return true;
  });
  capture.after_launch([e, timeout = membership_->timeout(), label = std::string("replay of a captured step")] {
    e->watch->add(e->engine->mark(), Header{}, label, timeout, {});
  });
}

// -- how devices find each other ------------------------------------------------------------------------------------

std::shared_ptr<DeviceCommunicator::Engine> DeviceCommunicator::engine_for(const Collective& c) {
  const Device d = device_of(c);
  if (d.is_cpu() || c.kind == Collective::Kind::barrier) return nullptr;
  auto known = engines_.find(d.index);
  if (known == engines_.end()) {
    // Two alone can't connect all: before the first collective what they send goes by way of the host.
    if (c.kind == Collective::Kind::send || c.kind == Collective::Kind::recv) return nullptr;
    try {
      known = engines_.emplace(d.index, connect(d, message("connecting for ", to_string(c.kind), " '", c.label, "'")))
                  .first;
    } catch (const CommError&) {
      throw;  // the others know
    } catch (...) {
      abort(message("connecting ", d, ": ", error_text(std::current_exception())));
      throw;
    }
  }
  return known->second;
}

std::shared_ptr<DeviceCommunicator::Engine> DeviceCommunicator::connect(Device d, const std::string& label) {
  DeviceEngines* engines = find_device_engines(d.kind);
  // Of each rank: whether it has an engine, and which device.
  constexpr int64_t kBytes = 1 + sizeof(DeviceEngines::Identity);
  Tensor mine = zeros({kBytes}, {.dtype = Dtype::u8, .device = cpu()}), all = zeros({size(), kBytes}, mine.options());
  if (engines) {
    const DeviceEngines::Identity identity = engines->identity(d);
    mine.span<uint8_t>()[0] = 1;
    std::memcpy(mine.ptr<uint8_t>() + 1, identity.data(), identity.size());
  }
  host_->all_gather(all, mine, {.label = label});
  if (const std::string why = obstacle(all); !why.empty()) {
    check<DeviceError>(transport_ != DeviceTransport::always, "[init_process_group] backend nccl: ", why,
                       ". Backend \"cpu\" takes the way through the host");
    log(LogLevel::info, message("[", channel_->name, "] values of ", d, " go by way of the host: ", why));
    return nullptr;
  }
  DeviceEngines::Key key{};
  Tensor shared = zeros({int64_t(key.size())}, mine.options());
  if (rank() == 0) {
    key = engines->new_key();
    std::memcpy(shared.raw(), key.data(), key.size());
  }
  host_->broadcast(shared, 0, {.label = label});
  std::memcpy(key.data(), shared.raw(), key.size());

  Header none;
  Wait wait(*membership_, *channel_, none, label, membership_->timeout());
  auto e = std::make_shared<Engine>();
  e->device = d;
  e->engine = engines->connect(d, key, rank(), size(), [&] { wait.check(); });
  e->watch = std::make_unique<DeviceWatch>(membership_, channel_, e->engine);
  return e;
}

// Why the devices can't do it among themselves, the same on all ranks; "" where they can.
std::string DeviceCommunicator::obstacle(const Tensor& identities) const {
  const auto row = [&](int r) {
    return identities.span<uint8_t>().subspan(size_t(r * identities.size(1)), size_t(identities.size(1)));
  };
  for (int r = 0; r < size(); ++r) {
    const int of_group = channel_->members[size_t(r)];
    if (row(r)[0] == 0) return message("rank ", of_group, " has no NCCL (its CUDA library was built without)");
    for (int earlier = 0; earlier < r; ++earlier)
      if (std::ranges::equal(row(earlier), row(r)))
        return message("ranks ", channel_->members[size_t(earlier)], " and ", of_group,
                       " use the same GPU, which NCCL does not allow");
  }
  return {};
}

}  // namespace tandem
