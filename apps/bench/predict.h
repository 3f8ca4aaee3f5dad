/// What data-parallel training would take on N devices, by a model of its cost: nothing here is measured on them.
///
/// A replica computes as long as measured, divided by `speedup`; data are loaded ahead. Bucket b starts when it is
/// ready and the one before it is through, and takes a ring all-reduce's 2 (N-1) latency + 2 (N-1)/N bytes/bandwidth.
/// The batch of each replica stays what it was.
#pragma once
#include "apps/bench/parallel.h"

namespace tandem::bench {

struct Link {
  std::string name;
  double bandwidth_gb_s = 0;  // of a device in one direction
  double latency_us = 0;      // of one hop
};

/// Milliseconds of a ring all-reduce.
double ring_ms(double bytes, int devices, const Link& link);

/// For 2, 4, ... up to o.predict devices, from those rows that have buckets; by the link that the options give, else by
/// NVLink and by Ethernet.
Predictions predict(const Rows& rows, const ParallelOptions& o);

}  // namespace tandem::bench
