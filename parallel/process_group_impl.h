/// Not installed. What a ProcessGroup is made of.
#pragma once
#include <tandem/parallel/membership.h>
#include <tandem/parallel/process_group.h>

namespace tandem {

struct ProcessGroup::Impl {
  std::shared_ptr<Membership> membership;
  int local_rank = 0, local_size = 1;
  std::unique_ptr<Communicator> communicator = nullptr;
  int channels = 0;               // opened so far: part of a channel's name
  ProcessGroup* outer = nullptr;  // the thread's group before
};

}  // namespace tandem
