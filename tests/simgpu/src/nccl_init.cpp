// How NCCL's communicators come to be: by a name that the ranks share, or all of a process at once.
#include <climits>
#include <cstring>
#include <set>

#include "nccl_group.h"
#include "nccl_init.h"
#include "refusal.h"
#include "settings.h"

namespace simgpu {
namespace {

struct UniqueId {
  char mark[8] = "simgpu";
  SegmentName name;
};
static_assert(sizeof(UniqueId) <= sizeof(ncclUniqueId));

ncclUniqueId make_id() {
  const UniqueId id{.name = Segment::create()};
  ncclUniqueId bytes{};
  std::memcpy(bytes.internal, &id, sizeof id);
  return bytes;
}

ncclResult_t init(const char* function, NcclGroup& group, ncclComm_t* to, int ranks, const ncclUniqueId& bytes,
                  int rank, int device, bool blocking) {
  if (!to || ranks < 1 || rank < 0 || rank >= ranks)
    return refuse(ncclInvalidArgument, "%s: rank %d of %d, or nowhere to put the communicator", function, rank, ranks);
  if (ranks > kMaxNcclRanks) fail("%s: %d ranks, modelled are up to %d", function, ranks, kMaxNcclRanks);
  UniqueId id;
  std::memcpy(static_cast<void*>(&id), bytes.internal, sizeof id);
  if (std::memcmp(id.mark, UniqueId{}.mark, sizeof id.mark) != 0)
    return refuse(ncclInvalidArgument, "%s: an id that ncclGetUniqueId didn't make", function);
  auto c = std::make_shared<Communicator>();
  c->segment = Segment::open(id.name);
  if (!c->segment)
    return refuse(ncclSystemError, "%s: the id has been used, or process %d, which made it, is gone", function,
                  id.name.creator);
  c->rank = rank;
  c->ranks = ranks;
  c->device = device;
  c->blocking = blocking;
  if (const ncclResult_t r = take_seat(function, *c)) return r;
  *to = publish(c);
  group.add(c, make_join(function, c), [to](ncclResult_t r) {
    if (!r) return;
    forget_communicator(*to, "ncclCommInitRank");
    *to = nullptr;
  });
  return ncclSuccess;
}

}  // namespace

ncclResult_t check_config(const char* function, const ncclConfig_t* config, bool* blocking) {
  if (!config) return ncclSuccess;
  const ncclConfig_t wanted = NCCL_CONFIG_INITIALIZER;
  if (config->magic != wanted.magic || config->size != wanted.size)
    return refuse(ncclInvalidArgument, "%s: a config that NCCL_CONFIG_INITIALIZER didn't make", function);
  if (config->blocking == NCCL_CONFIG_UNDEF_INT) return ncclSuccess;
  if (config->blocking != 0 && config->blocking != 1)
    return refuse(ncclInvalidArgument, "%s: blocking is %d, not 0 or 1", function, config->blocking);
  *blocking = config->blocking == 1;
  return ncclSuccess;
}

}  // namespace simgpu

using namespace simgpu;

extern "C" {

ncclResult_t ncclGetVersion(int* version) {
  if (!version) return ncclInvalidArgument;
  *version = NCCL_VERSION_CODE;
  return ncclSuccess;
}

ncclResult_t ncclGetUniqueId(ncclUniqueId* id) {
  std::lock_guard lock(runtime_mutex());
  if (!id) return refuse(ncclInvalidArgument, "%s: nowhere to put the id", __func__);
  *id = make_id();
  return ncclSuccess;
}

ncclResult_t ncclCommInitRank(ncclComm_t* to, int ranks, ncclUniqueId id, int rank) {
  return NcclGroup::call(
      [&](NcclGroup& group) { return init("ncclCommInitRank", group, to, ranks, id, rank, current_device(), true); });
}

ncclResult_t ncclCommInitRankConfig(ncclComm_t* to, int ranks, ncclUniqueId id, int rank, ncclConfig_t* config) {
  return NcclGroup::call([&](NcclGroup& group) {
    bool blocking = true;
    if (const ncclResult_t r = check_config("ncclCommInitRankConfig", config, &blocking)) return r;
    return init("ncclCommInitRankConfig", group, to, ranks, id, rank, current_device(), blocking);
  });
}

ncclResult_t ncclCommInitAll(ncclComm_t* to, int count, const int* devices) {
  return NcclGroup::call([&](NcclGroup& group) {
    if (!to || count < 1 || count > settings().devices)
      return refuse(ncclInvalidArgument, "ncclCommInitAll: %d communicators, the machine has %d devices", count,
                    settings().devices);
    std::set<int> used;
    for (int i = 0; i < count; ++i) {
      const int device = devices ? devices[i] : i;
      if (device < 0 || device >= settings().devices)
        return refuse(ncclInvalidArgument, "ncclCommInitAll: Invalid device %d", device);
      if (!used.insert(device).second)
        return refuse(ncclInvalidUsage, "ncclCommInitAll: device %d is listed twice", device);
    }
    const ncclUniqueId id = make_id();
    for (int i = 0; i < count; ++i)
      if (const ncclResult_t r = init("ncclCommInitAll", group, &to[i], count, id, i, devices ? devices[i] : i, true))
        return r;
    return ncclSuccess;
  });
}

const char* ncclGetErrorString(ncclResult_t result) {
  switch (result) {
    case ncclSuccess: return "no error";
    case ncclUnhandledCudaError: return "unhandled cuda error (run with NCCL_DEBUG=INFO for details)";
    case ncclSystemError: return "unhandled system error (run with NCCL_DEBUG=INFO for details)";
    case ncclInternalError: return "internal error - please report this issue to the NCCL developers";
    case ncclInvalidArgument: return "invalid argument (run with NCCL_DEBUG=WARN for details)";
    case ncclInvalidUsage: return "invalid usage (run with NCCL_DEBUG=WARN for details)";
    case ncclRemoteError: return "remote process exited or there was a network error";
    case ncclInProgress: return "NCCL operation in progress";
    default: return "unknown result code";
  }
}

const char* ncclGetLastError(ncclComm_t) { return last_refusal().c_str(); }

}  // extern "C"
