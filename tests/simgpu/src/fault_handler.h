/// Explains accesses that the pages' protection stops: host code at device memory or at a pinned buffer in flight, and
/// kernels that leave all memory or their stack.
#pragma once

namespace simgpu {

/// Takes the signal where it isn't taken yet: test runners put handlers of their own in between. Faults that are not
/// the simulator's go to the handler found.
void install_fault_handler();

/// A stack for the handler, for a thread that may overflow its own.
void give_handler_a_stack();

}  // namespace simgpu
