/// NCCL's groups: what a thread calls between ncclGroupStart and ncclGroupEnd is done together at the end. A call
/// outside is a group of one.
#pragma once
#include <functional>
#include <memory>

#include "nccl_communicator.h"
#include "nccl_operation.h"

namespace simgpu {

class NcclGroup {
 public:
  /// Runs f, and what it adds together with the rest of the calling thread's group. The error of one call is the whole
  /// group's. Not under the runtime's lock: it may wait for peers.
  static ncclResult_t call(const std::function<ncclResult_t(NcclGroup&)>& f);

  /// done(result) is called when the job is over, under the lock; by then the communicator's own calls may go on.
  void add(std::shared_ptr<Communicator> c, std::shared_ptr<NcclJob> job, std::function<void(ncclResult_t)> done);
  void add(const std::shared_ptr<Communicator>& c, cudaStream_t stream, CommunicatorCall call);

  static ncclResult_t start();
  static ncclResult_t end(bool grouped);

 private:
  struct Job {
    std::shared_ptr<Communicator> communicator;
    std::shared_ptr<NcclJob> job;
    std::function<void(ncclResult_t)> done;
  };
  struct Work {
    std::shared_ptr<Communicator> communicator;
    cudaStream_t stream;
    std::vector<CommunicatorCall> calls;
  };

  ncclResult_t finish(bool grouped);
  ncclResult_t run_jobs();
  ncclResult_t submit_work(bool grouped);

  int depth_ = 0;
  ncclResult_t error_ = ncclSuccess;
  std::vector<Job> jobs_;
  std::vector<Work> work_;
};

}  // namespace simgpu
