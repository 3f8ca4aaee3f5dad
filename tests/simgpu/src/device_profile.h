/// The GPU that is simulated. Figures of NVIDIA's H200 SXM from its data sheet ("NVIDIA H200 Tensor Core GPU", 2024:
/// 141 GB, 4.8 TB/s, 67 TFLOP/s float32, NVLink 900 GB/s both ways) and, for what stands there only with sparsity, half
/// of it; limits of compute capability 9.0 from the CUDA C++ Programming Guide, table "Technical Specifications per
/// Compute Capability". Launch costs are usual figures of the CUDA runtime on x86 hosts, not of one machine.
#pragma once
#include <cstddef>

namespace simgpu {

struct DeviceProfile {
  const char* name = "NVIDIA H200 (simulated)";
  int major = 9, minor = 0;
  int multiprocessors = 132;
  int threads_per_multiprocessor = 2048, blocks_per_multiprocessor = 32;
  size_t shared_per_multiprocessor = size_t{228} << 10;
  size_t l2_bytes = size_t{50} << 20;
  int clock_khz = 1'980'000;
  double bytes_per_s = 4.8e12;
  double flops_f32 = 67e12, flops_tensor_16 = 989e12, flops_tensor_tf32 = 494e12, flops_tensor_64 = 67e12;
  double link_bytes_per_s = 450e9;  // one way
  double host_bytes_per_s = 55e9;   // PCIe 5 x16
  double launch_host_us = 2.5;      // the call, on the host
  double event_host_us = 0.5;       // what queues no work
  double launch_device_us = 1.5;    // between two kernels of a stream
  double graph_launch_host_us = 6, graph_node_device_us = 0.7;
};

inline constexpr DeviceProfile kProfile{};

}  // namespace simgpu
