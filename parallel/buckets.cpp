#include <tandem/parallel/buckets.h>

#include <algorithm>

namespace tandem {
namespace {

size_t bytes_of(const Leaf& l) { return size_t(l.meta.shape.numel()) * size_of(l.meta.dtype); }

bool same_kind(const Leaf& a, const Leaf& b) { return a.meta.dtype == b.meta.dtype && a.meta.device == b.meta.device; }

// A window that nobody has used yet gets its first memory here, not some of its own before.
Tensor window_without_memory(const Leaf& l) {
  Ref<Storage> s = Storage::foreign(nullptr, bytes_of(l), l.meta.device, {});
  return Tensor(std::move(s), l.meta.shape, l.meta.strides, l.meta.dtype);
}

void lay_out_side_by_side(const std::vector<Leaf*>& leaves) {
  std::vector<Leaf*> fresh;
  std::vector<Storage*> parts;
  std::vector<bool> keep;
  for (Leaf* l : leaves) {
    if (!l->window) {
      l->window = window_without_memory(*l);
      fresh.push_back(l);
    }
    parts.push_back(l->window.storage().get());
    keep.push_back(l->written);
  }
  try {
    lay_out(parts, keep);
  } catch (...) {
    for (Leaf* l : fresh) l->window = {};
    throw;
  }
}

}  // namespace

Buckets::Buckets(const std::vector<Leaf*>& leaves, BucketLimits limits) : leaves_(leaves) {
  for (size_t i = 0; i < leaves_.size(); ++i) {
    leaves_[i]->index = int(i);
    kept_.emplace_back(leaves_[i]);
  }
  cut(limits);
  lay_out_windows();
  for (Bucket& b : buckets_) make_flat(b);
}

void Buckets::cut(BucketLimits limits) {
  std::vector<std::vector<Leaf*>> lists;
  struct Open {
    size_t list, bytes, limit;
  };
  std::vector<Open> open;  // one for each device and dtype
  auto open_of = [&](const Leaf& l) -> Open& {
    for (Open& o : open)
      if (same_kind(*lists[o.list][0], l)) return o;
    lists.emplace_back();
    return open.emplace_back(Open{lists.size() - 1, 0, limits.first_bucket_bytes});
  };
  for (Leaf* l : leaves_) {
    Open& o = open_of(*l);
    if (!lists[o.list].empty() && o.bytes >= o.limit) {
      lists.emplace_back();
      o = {lists.size() - 1, 0, limits.bucket_bytes};
    }
    lists[o.list].push_back(l);
    o.bytes += bytes_of(*l);
  }
  std::sort(lists.begin(), lists.end(), [](auto& a, auto& b) { return a.back()->index < b.back()->index; });
  bucket_of_.resize(leaves_.size());
  for (auto& list : lists) {
    for (Leaf* l : list) bucket_of_[size_t(l->index)] = buckets_.size();
    buckets_.emplace_back().leaves = std::move(list);
  }
}

void Buckets::lay_out_windows() {
  std::vector<bool> done(buckets_.size());
  for (size_t first = 0; first < buckets_.size(); ++first) {
    if (done[first]) continue;
    std::vector<Leaf*> leaves;
    for (size_t b = first; b < buckets_.size(); ++b) {
      if (!same_kind(*buckets_[first].leaves[0], *buckets_[b].leaves[0])) continue;
      done[b] = true;
      leaves.insert(leaves.end(), buckets_[b].leaves.begin(), buckets_[b].leaves.end());
    }
    lay_out_side_by_side(leaves);
  }
}

void Buckets::make_flat(Bucket& b) const {
  const Storage& first = *b.leaves.front()->window.storage();
  const Storage& last = *b.leaves.back()->window.storage();
  const auto bytes = size_t(last.data + last.bytes - first.data);
  const auto offset = size_t(first.data - first.base->data);
  const Dtype dtype = b.leaves.front()->meta.dtype;
  b.flat = Tensor(Storage::window(first.base, offset, bytes), {int64_t(bytes / size_of(dtype))}, {1}, dtype);
}

void Buckets::expect(int times) {
  for (Bucket& b : buckets_) b.pending = int(b.leaves.size()) * times;
}

}  // namespace tandem
