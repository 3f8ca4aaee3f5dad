// A merge sort: a block sorts a tile of keys in shared memory, then launches merge sorted runs two by two, each key
// finding its place by a binary search in the other run.
#include <tandem/cuda/launch.h>
#include <tandem/cuda/scatter.h>

#include <algorithm>
#include <bit>

namespace tandem::cuda_impl {
namespace {

constexpr int kTile = 1024;

// A bitonic network over `tile` keys, a power of two; one thread to two keys.
__global__ void sort_tiles_kernel(uint64_t* keys, const int64_t* place, int64_t n, int64_t places, int shift,
                                  int tile) {
  auto* tile_keys = dynamic_smem<uint64_t>();
  const int64_t first = int64_t(blockIdx.x) * tile;
  for (int k = int(threadIdx.x); k < tile; k += int(blockDim.x)) {
    const int64_t i = first + k, to = i < n ? place[i] : -1;
    tile_keys[k] = uint64_t(to) < uint64_t(places) ? uint64_t(to) << shift | uint64_t(i) : SortedSources::kNowhere;
  }
  const int t = int(threadIdx.x);
  for (int size = 2; size <= tile; size *= 2)
    for (int step = size / 2; step; step /= 2) {
      __syncthreads();
      const int a = t / step * step * 2 + t % step, b = a + step;
      const bool ascending = (a & size) == 0;
      const uint64_t at_a = tile_keys[a], at_b = tile_keys[b];
      if ((at_b < at_a) == ascending) {
        tile_keys[a] = at_b;
        tile_keys[b] = at_a;
      }
    }
  __syncthreads();
  for (int k = t; k < tile && first + k < n; k += int(blockDim.x)) keys[first + k] = tile_keys[k];
}

// How many of the sorted keys come before `key`: those below it, and, where `equal`, those equal to it.
__device__ int64_t count_before(const uint64_t* keys, int64_t n, uint64_t key, bool equal) {
  int64_t low = 0, high = n;
  while (low < high) {
    const int64_t middle = (low + high) / 2;
    if (keys[middle] < key || (equal && keys[middle] == key))
      low = middle + 1;
    else
      high = middle;
  }
  return low;
}

// Runs of `run` keys, two by two.
__global__ void merge_kernel(uint64_t* to, const uint64_t* from, int64_t n, int64_t run) {
  for (int64_t i = first_index(); i < n; i += index_step()) {
    const int64_t pair = i / (2 * run) * 2 * run, middle = min(n, pair + run);
    const bool second = i >= middle;
    const int64_t other = second ? pair : middle, end = second ? middle : min(n, pair + 2 * run);
    const int64_t in_own = i - (second ? middle : pair);
    to[pair + in_own + count_before(from + other, end - other, from[i], second)] = from[i];
  }
}

}  // namespace

SortedSources sort_sources(const Tensor& place, int64_t places) {
  const int64_t n = place.numel();
  const int shift = int(std::bit_width(uint64_t(std::max<int64_t>(1, n - 1))));
  check(int(std::bit_width(uint64_t(places))) + shift < 64, "[", context().op, "] ", n, " indices into ", places,
        " places are too many to sort");
  const TensorOptions o{.dtype = Dtype::i64, .device = place.device()};
  SortedSources s{empty({n}, o), n, shift};
  if (n == 0) return s;
  On on(place);
  const int tile = int(std::min<uint64_t>(kTile, std::bit_ceil(uint64_t(std::max<int64_t>(n, 2)))));
  launch(on, {dim3(unsigned((n + tile - 1) / tile)), dim3(unsigned(tile / 2)), size_t(tile) * sizeof(uint64_t)},
         sort_tiles_kernel, static_cast<uint64_t*>(s.keys.raw()), place.ptr<int64_t>(), n, places, shift, tile);
  if (n <= tile) return s;
  Tensor other = empty({n}, o);
  for (int64_t run = tile; run < n; run *= 2) {
    launch(on, grid_for(n), merge_kernel, static_cast<uint64_t*>(other.raw()),
           static_cast<const uint64_t*>(s.keys.raw()), n, run);
    std::swap(other, s.keys);
  }
  return s;
}

}  // namespace tandem::cuda_impl
