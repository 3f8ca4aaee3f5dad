/// What a program of ours does to its heap before it starts.
#pragma once

namespace tandem {

/// Large blocks go back to the system as soon as they are freed. Left alone, glibc raises the size from which it maps
/// blocks to the largest one ever freed, and oneDNN's packing buffers, taken and freed in each matrix product, then
/// pile up in one heap per thread: 60 MB of them while training the Net. A program's affair, so the library leaves it
/// alone.
void return_large_blocks();

}  // namespace tandem
