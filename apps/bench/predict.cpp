#include "apps/bench/predict.h"

#include <algorithm>
#include <set>
#include <tuple>

namespace tandem::bench {
namespace {

std::vector<Link> links(const ParallelOptions& o) {
  if (o.bandwidth > 0) return {{"given link", o.bandwidth, o.latency_us}};
  return {{"NVLink", 300, 5}, {"25 Gbit/s Ethernet", 3.1, 30}};
}

Prediction predict_one(const Row& row, const Link& link, int devices, double speedup) {
  const double around = (row.split.forward + row.split.optimizer) / speedup;
  const double backward = row.split.backward / speedup;
  double sent = 0;
  for (auto& b : row.buckets) {
    const double ready = std::min(backward, b.ready_ms / speedup);
    sent = std::max(sent, ready) + ring_ms(double(b.bytes), devices, link);
  }
  const double exposed = std::max(0., sent - backward), step = around + backward + exposed;
  const double batch = double(row.batch) / row.replicas;
  return {.net = row.net,
          .width = row.width,
          .batch = batch,
          .bucket_mb = row.bucket_mb,
          .link = link.name,
          .bandwidth_gb_s = link.bandwidth_gb_s,
          .latency_us = link.latency_us,
          .speedup = speedup,
          .devices = devices,
          .step_ms = step,
          .exposed_ms = exposed,
          .images_s = batch * devices / step * 1e3,
          .efficiency = (around + backward) / step};
}

}  // namespace

double ring_ms(double bytes, int n, const Link& link) {
  const double hops = 2. * (n - 1);
  return hops * link.latency_us * 1e-3 + hops / n * bytes / (link.bandwidth_gb_s * 1e6);
}

Predictions predict(const Rows& rows, const ParallelOptions& o) {
  Predictions all;
  std::set<std::tuple<std::string, int64_t, int, int, double>> done;  // threads and processes would say the same
  for (auto& row : rows) {
    if (row.buckets.empty()) continue;
    if (!done.emplace(row.net, row.width, row.batch, row.replicas, row.bucket_mb).second) continue;
    for (auto& link : links(o)) {
      for (int n = 2; n < o.predict; n *= 2) all.push_back(predict_one(row, link, n, o.speedup));
      all.push_back(predict_one(row, link, o.predict, o.speedup));
    }
  }
  return all;
}

}  // namespace tandem::bench
