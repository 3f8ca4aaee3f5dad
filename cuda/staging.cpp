#include <tandem/cuda/check.h>
#include <tandem/cuda/staging.h>

#include <algorithm>
#include <cstring>

namespace tandem::cuda_impl {

Staging::Staging() {
  for (Chunk& c : ring_) TANDEM_CUDA(cudaEventCreateWithFlags(&c.free, cudaEventDisableTiming));
}

Staging::Chunk& Staging::next() {
  Chunk& c = ring_[turn_++ % ring_.size()];
  if (!c.data)
    TANDEM_CUDA(cudaMallocHost(reinterpret_cast<void**>(&c.data), kChunk));
  else
    TANDEM_CUDA(cudaEventSynchronize(c.free));
  return c;
}

void Staging::to_device(void* to, const void* from, size_t bytes, cudaStream_t stream) {
  std::lock_guard l(m_);
  for (size_t at = 0; at < bytes; at += kChunk) {
    const size_t n = std::min(kChunk, bytes - at);
    Chunk& c = next();
    std::memcpy(c.data, static_cast<const std::byte*>(from) + at, n);
    TANDEM_CUDA(cudaMemcpyAsync(static_cast<std::byte*>(to) + at, c.data, n, cudaMemcpyHostToDevice, stream));
    TANDEM_CUDA(cudaEventRecord(c.free, stream));
  }
}

void Staging::to_host(void* to, const void* from, size_t bytes, cudaStream_t stream) {
  std::lock_guard l(m_);
  struct Part {
    Chunk* chunk;
    size_t at, bytes;
  };
  std::array<Part, 2> flying{};  // one is copied while the other is emptied
  auto empty = [&](Part& p) {
    if (!p.chunk) return;
    TANDEM_CUDA(cudaEventSynchronize(p.chunk->free));
    std::memcpy(static_cast<std::byte*>(to) + p.at, p.chunk->data, p.bytes);
    p.chunk = nullptr;
  };
  size_t turn = 0;
  for (size_t at = 0; at < bytes; at += kChunk, ++turn) {
    Part& p = flying[turn % 2];
    empty(p);
    p = {&next(), at, std::min(kChunk, bytes - at)};
    TANDEM_CUDA(cudaMemcpyAsync(p.chunk->data, static_cast<const std::byte*>(from) + at, p.bytes,
                                cudaMemcpyDeviceToHost, stream));
    TANDEM_CUDA(cudaEventRecord(p.chunk->free, stream));
  }
  empty(flying[turn % 2]);
  empty(flying[(turn + 1) % 2]);
}

}  // namespace tandem::cuda_impl
