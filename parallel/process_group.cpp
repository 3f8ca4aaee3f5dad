#include <tandem/core/backend.h>
#include <tandem/core/log.h>
#include <tandem/parallel/connect_processes.h>
#include <tandem/parallel/error_text.h>
#include <tandem/parallel/join_group.h>
#include <tandem/parallel/mpi_plugin.h>
#include <tandem/parallel/process_group_impl.h>
#include <tandem/parallel/token.h>

#include <algorithm>
#include <numeric>

namespace tandem {
namespace {

std::vector<int> all_ranks(int size) {
  std::vector<int> all(static_cast<size_t>(size));
  std::iota(all.begin(), all.end(), 0);
  return all;
}

// By the option, or else the environment.
std::string backend_of(const ProcessGroupOptions& o) {
  return o.backend.empty() ? process_environment()("TANDEM_BACKEND").value_or("") : o.backend;
}

// How the host's bytes go.
TransportFactory transport_of(const ProcessGroupOptions& o, const std::string& backend) {
  if (backend == "mpi") {
    check(o.transport == "auto", "[init_process_group] transport '", o.transport,
          "' is one of backend cpu: with backend mpi, MPI moves the bytes");
    return
        [&connect = mpi_plugin()](StoreMembership& m, const std::shared_ptr<Channel>& c) { return connect(m, c, m); };
  }
  if (backend == "gloo") log(LogLevel::info, "[init_process_group] backend gloo: tandem's own, cpu, runs instead");
  return transport_factory(o.transport, token_from_environment());
}

std::unique_ptr<ProcessGroup::Impl> join(const ProcessGroupOptions& o) {
  const std::string backend = backend_of(o);
  const DeviceTransport devices = device_transport_of(backend);
  TransportFactory transport = transport_of(o, backend);
  auto impl = join_processes(parse_init_method(o.init_method, o.rank, o.world_size, process_environment()),
                             std::move(transport), o.timeout);
  impl->device_transport = devices;
  return impl;
}

}  // namespace

DeviceTransport device_transport_of(const std::string& backend) {
  if (backend == "nccl") {
    Backend* cuda = find_backend(DeviceKind::cuda);
    check<DeviceError>(cuda && cuda->count() > 0 && find_device_engines(DeviceKind::cuda),
                       "[init_process_group] backend nccl is for GPUs, and there is ",
                       !cuda                ? "no CUDA in this build"
                       : cuda->count() <= 0 ? "none here"
                                            : "no NCCL in this build",
                       ": use backend \"cpu\"");
    return DeviceTransport::always;
  }
  check(backend.empty() || backend == "cpu" || backend == "gloo" || backend == "mpi",
        "[init_process_group] there is no backend '", backend, "': use backend \"cpu\", \"nccl\" or \"mpi\"");
  return backend.empty() ? DeviceTransport::where_possible : DeviceTransport::never;
}

std::unique_ptr<ProcessGroup::Impl> join_processes(const Rendezvous& r, TransportFactory transport,
                                                   std::chrono::milliseconds timeout) {
  std::shared_ptr<StoreMembership> membership = join_group(r, std::move(transport), timeout, timeout);
  auto impl = std::make_unique<ProcessGroup::Impl>();
  impl->local_rank = r.local_rank;
  impl->local_size = r.local_world_size;
  if (r.local_rank < 0 || r.local_world_size < 0) {  // nobody has said: those on this machine, in order
    const auto channel = membership->open("machines", all_ranks(r.world_size));
    Connecting connecting(*membership, *channel);
    const auto machines = machines_of(*membership, channel);
    connecting.done();
    const std::string& mine = machines[size_t(r.rank)];
    impl->local_rank = int(std::count(machines.begin(), machines.begin() + r.rank, mine));
    impl->local_size = int(std::count(machines.begin(), machines.end(), mine));
  }
  impl->membership = std::move(membership);
  return impl;
}

ProcessGroup::ProcessGroup(const ProcessGroupOptions& options) : ProcessGroup(join(options)) {}

ProcessGroup::ProcessGroup(std::unique_ptr<Impl> impl) : impl_(std::move(impl)) {
  try {
    impl_->communicator = open(all_ranks(size()));
  } catch (...) {
    impl_->membership->leave(error_text(std::current_exception()));
    throw;
  }
  impl_->outer = std::exchange(context().process_group, this);
}

ProcessGroup::~ProcessGroup() {
  // Groups of a thread may end in any order.
  ProcessGroup** at = &context().process_group;
  while (*at && *at != this) at = &(*at)->impl_->outer;
  if (*at) *at = impl_->outer;
}

int ProcessGroup::rank() const { return impl_->membership->rank(); }
int ProcessGroup::size() const { return impl_->membership->size(); }
int ProcessGroup::local_rank() const { return impl_->local_rank; }
int ProcessGroup::local_size() const { return impl_->local_size; }
std::chrono::milliseconds ProcessGroup::timeout() const { return impl_->membership->timeout(); }
Communicator& ProcessGroup::communicator() { return *impl_->communicator; }

std::unique_ptr<Communicator> ProcessGroup::open(const std::vector<int>& ranks) {
  const int number = impl_->channels++;
  if (std::find(ranks.begin(), ranks.end(), rank()) == ranks.end()) return nullptr;
  auto channel = impl_->membership->open(number ? message("world/", number) : "world", ranks);
  std::unique_ptr<Transport> transport;
  if (ranks.size() > 1) {
    Connecting connecting(*impl_->membership, *channel);
    transport = impl_->membership->connect(channel);
    connecting.done();
  }
  auto host = std::make_unique<HostCommunicator>(impl_->membership, channel, std::move(transport));
  if (impl_->device_transport == DeviceTransport::never) return host;
  return std::make_unique<DeviceCommunicator>(impl_->membership, std::move(channel), std::move(host),
                                              impl_->device_transport);
}

std::unique_ptr<Communicator> ProcessGroup::new_communicator() { return open(all_ranks(size())); }

std::unique_ptr<Communicator> ProcessGroup::new_group(const std::vector<int>& ranks) {
  check(std::is_sorted(ranks.begin(), ranks.end()) && std::adjacent_find(ranks.begin(), ranks.end()) == ranks.end() &&
            !ranks.empty() && ranks.front() >= 0 && ranks.back() < size(),
        "[new_group] takes ranks of this group of ", size(), ", each once and ascending");
  return open(ranks);
}

void ProcessGroup::barrier(std::chrono::milliseconds timeout) { communicator().barrier({.timeout = timeout}); }

void ProcessGroup::rank0_only(const std::function<void()>& fn) {
  if (rank() == 0) {
    try {
      fn();
    } catch (...) {
      communicator().abort("rank0_only: " + error_text(std::current_exception()));
      throw;
    }
  }
  communicator().barrier({.label = "rank0_only", .patient = rank() != 0});
}

std::optional<int> launched_world_size() {
  const auto r = launched_rendezvous(process_environment());
  return r ? std::optional(r->world_size) : std::nullopt;
}

std::optional<int> launched_rank() {
  const auto r = launched_rendezvous(process_environment());
  return r ? std::optional(r->rank) : std::nullopt;
}

ProcessGroup& current_process_group() {
  check(context().process_group != nullptr,
        "[process_group] this thread is in no group: init_process_group makes it a rank of one, run_replicas starts "
        "threads that are");
  return *context().process_group;
}

}  // namespace tandem
