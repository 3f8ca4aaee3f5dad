// NCCL's collectives and messages as they are called: what is checked, and what the calls become.
#include <algorithm>
#include <cstring>

#include "api.h"
#include "footprint.h"
#include "nccl_group.h"
#include "nccl_types.h"
#include "refusal.h"

namespace simgpu {
namespace {

/// Buffers overlap in no other way than the one that is called in place.
void check_overlap(const char* function, const Communicator& c, const CommunicatorCall& x) {
  const size_t element = bytes_of(x.type);
  const Footprint from(x.from, x.elements_read(c) * element), to(x.to, x.elements_written(c) * element);
  if (!from.overlaps(to)) return;
  const auto *read = static_cast<const char*>(x.from), *written = static_cast<const char*>(x.to);
  const size_t own = size_t(c.rank) * x.count * element;
  const bool in_place = x.kind == CallKind::all_gather       ? read == written + own
                        : x.kind == CallKind::reduce_scatter ? written == read + own
                                                             : read == written;
  if (!in_place) fail("%s of %s: the buffers overlap, and not as they do in place", function, c.place().c_str());
}

ncclResult_t check_reduction(const char* function, const Communicator& c, ncclRedOp_t op, ncclDataType_t type,
                             Reduction* r) {
  if (op < 0 || op >= int(ncclNumOps + c.reductions.size()))
    return refuse(ncclInvalidArgument, "%s: operation %d is none of this communicator's", function, int(op));
  if (op < ncclNumOps) {
    constexpr Reduction::Kind kinds[] = {Reduction::sum, Reduction::product, Reduction::maximum, Reduction::minimum,
                                         Reduction::average};
    r->kind = kinds[op];
    return ncclSuccess;
  }
  const auto& custom = c.reductions[size_t(op - ncclNumOps)];
  if (!custom.is_live || custom.type != type)
    return refuse(ncclInvalidArgument, "%s: operation %d was destroyed, or is for %s, not %s", function, int(op),
                  name_of(custom.type), name_of(type));
  *r = custom.reduction;
  return ncclSuccess;
}

ncclResult_t check_call(const char* function, const Communicator& c, const CommunicatorCall& x) {
  if (x.type < 0 || x.type >= ncclNumTypes) return refuse(ncclInvalidArgument, "%s: type %d", function, int(x.type));
  if (!name_of(x.type)) fail("%s: elements of type %d are not modelled", function, int(x.type));
  if (x.root < 0 || x.root >= c.ranks)
    return refuse(ncclInvalidArgument, "%s: root or peer %d of %d ranks", function, x.root, c.ranks);
  if ((x.elements_read(c) && !x.from) || (x.elements_written(c) && !x.to))
    return refuse(ncclInvalidArgument, "%s: a buffer is null", function);
  const size_t element = bytes_of(x.type);
  if (reinterpret_cast<uintptr_t>(x.from) % element || reinterpret_cast<uintptr_t>(x.to) % element)
    return refuse(ncclInvalidArgument, "%s: buffers at %p and %p for elements of %zu bytes", function, x.from, x.to,
                  element);
  return ncclSuccess;
}

ncclResult_t call(ncclComm_t handle, cudaStream_t stream, CommunicatorCall x, bool reduces = false) {
  return NcclGroup::call([&](NcclGroup& group) {
    const char* function = name_of(x.kind);
    const auto c = find_communicator(handle, function);
    if (const ncclResult_t r = check_ready(function, c)) return r;
    if (const ncclResult_t r = check_call(function, *c, x)) return r;
    if (reduces)
      if (const ncclResult_t r = check_reduction(function, *c, ncclRedOp_t(x.op), x.type, &x.reduction)) return r;
    if (const int device = device_of(stream_of(stream)); device != c->device)
      return refuse(ncclUnhandledCudaError, "%s: a stream of device %d, the communicator is of device %d", function,
                    device, c->device);
    if (const cudaError_t error = sticky_error())
      return refuse(ncclUnhandledCudaError, "%s: the device has failed before: %s", function, cudaGetErrorName(error));
    if (x.count == 0) return ncclSuccess;
    check_overlap(function, *c, x);
    group.add(c, stream, x);
    return ncclSuccess;
  });
}

}  // namespace
}  // namespace simgpu

using namespace simgpu;

extern "C" {

ncclResult_t ncclAllReduce(const void* from, void* to, size_t count, ncclDataType_t type, ncclRedOp_t op,
                           ncclComm_t comm, cudaStream_t stream) {
  return call(comm, stream,
              {.kind = CallKind::all_reduce, .from = from, .to = to, .count = count, .type = type, .op = op}, true);
}
ncclResult_t ncclReduce(const void* from, void* to, size_t count, ncclDataType_t type, ncclRedOp_t op, int root,
                        ncclComm_t comm, cudaStream_t stream) {
  return call(comm, stream,
              {.kind = CallKind::reduce, .from = from, .to = to, .count = count, .type = type, .op = op, .root = root},
              true);
}
ncclResult_t ncclReduceScatter(const void* from, void* to, size_t count, ncclDataType_t type, ncclRedOp_t op,
                               ncclComm_t comm, cudaStream_t stream) {
  return call(comm, stream,
              {.kind = CallKind::reduce_scatter, .from = from, .to = to, .count = count, .type = type, .op = op}, true);
}
ncclResult_t ncclBroadcast(const void* from, void* to, size_t count, ncclDataType_t type, int root, ncclComm_t comm,
                           cudaStream_t stream) {
  return call(comm, stream,
              {.kind = CallKind::broadcast, .from = from, .to = to, .count = count, .type = type, .root = root});
}
ncclResult_t ncclAllGather(const void* from, void* to, size_t count, ncclDataType_t type, ncclComm_t comm,
                           cudaStream_t stream) {
  return call(comm, stream, {.kind = CallKind::all_gather, .from = from, .to = to, .count = count, .type = type});
}
ncclResult_t ncclSend(const void* from, size_t count, ncclDataType_t type, int peer, ncclComm_t comm,
                      cudaStream_t stream) {
  return call(comm, stream,
              {.kind = CallKind::send, .from = from, .to = nullptr, .count = count, .type = type, .root = peer});
}
ncclResult_t ncclRecv(void* to, size_t count, ncclDataType_t type, int peer, ncclComm_t comm, cudaStream_t stream) {
  return call(comm, stream,
              {.kind = CallKind::receive, .from = nullptr, .to = to, .count = count, .type = type, .root = peer});
}

ncclResult_t ncclRedOpCreatePreMulSum(ncclRedOp_t* op, void* scalar, ncclDataType_t type,
                                      ncclScalarResidence_t residence, ncclComm_t comm) {
  std::lock_guard lock(runtime_mutex());
  const auto c = find_communicator(comm, __func__);
  if (const ncclResult_t r = check_ready(__func__, c)) return r;
  if (!op || !scalar || type < 0 || type >= ncclNumTypes || !name_of(type) ||
      (residence != ncclScalarDevice && residence != ncclScalarHostImmediate))
    return refuse(ncclInvalidArgument, "%s: type %d, residence %d, or a null pointer", __func__, int(type),
                  int(residence));
  Reduction r{.kind = Reduction::scaled_sum};
  if (residence == ncclScalarDevice)
    r.scalar_on_device = scalar;
  else
    std::memcpy(r.scalar, scalar, bytes_of(type));
  c->reductions.push_back({type, r});
  *op = ncclRedOp_t(ncclNumOps + c->reductions.size() - 1);
  return ncclSuccess;
}

ncclResult_t ncclRedOpDestroy(ncclRedOp_t op, ncclComm_t comm) {
  std::lock_guard lock(runtime_mutex());
  const auto c = find_communicator(comm, __func__);
  if (!c || op < ncclNumOps || op >= int(ncclNumOps + c->reductions.size()) ||
      !c->reductions[size_t(op - ncclNumOps)].is_live)
    return refuse(ncclInvalidArgument, "%s: operation %d is none that was created for this communicator", __func__,
                  int(op));
  c->reductions[size_t(op - ncclNumOps)].is_live = false;
  return ncclSuccess;
}

}  // extern "C"
