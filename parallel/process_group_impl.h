/// Not installed. What a ProcessGroup is made of.
#pragma once
#include <tandem/parallel/device_communicator.h>
#include <tandem/parallel/membership.h>
#include <tandem/parallel/process_group.h>
#include <tandem/parallel/rendezvous.h>
#include <tandem/parallel/store_membership.h>

namespace tandem {

struct ProcessGroup::Impl {
  std::shared_ptr<Membership> membership;
  int local_rank = 0, local_size = 1;
  std::unique_ptr<Communicator> communicator = nullptr;
  DeviceTransport device_transport = DeviceTransport::where_possible;
  int channels = 0;               // opened so far: part of a channel's name
  ProcessGroup* outer = nullptr;  // the thread's group before
};

/// Of "cpu", "gloo", "mpi", "nccl" and "", which leaves the choice to the tensors' devices. Throws Error for another
/// one, DeviceError for nccl where there is none.
DeviceTransport device_transport_of(const std::string& backend);

/// Joins a group of processes, of which this rank is one, or a thread of one. Returns when all are there.
std::unique_ptr<ProcessGroup::Impl> join_processes(const Rendezvous& r, TransportFactory transport,
                                                   std::chrono::milliseconds timeout);

}  // namespace tandem
