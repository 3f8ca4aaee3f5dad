/// What is to fail, as simgpu.h says.
#pragma once

namespace simgpu {

/// Whether this one, of those that are counted, is to fail.
bool fails_allocation();
bool refuses_launch();
bool fails_kernel();

/// By how much copies between devices and collectives are late; negative: for ever.
double link_delay_ms();

}  // namespace simgpu
