/// The simulated GPU of the tests, where the CUDA library that was opened is compiled for it: what it counts.
#pragma once

namespace tandem::bench {

struct Simulator {
  void (*reset_counts)();
  const char* (*report)();  // JSON
  void (*start_timeline)();
  int (*write_timeline)(const char* path);
  const char* (*profile)();
};

/// Null on real devices. Ask after a CUDA device has been.
const Simulator* simulator();

}  // namespace tandem::bench
