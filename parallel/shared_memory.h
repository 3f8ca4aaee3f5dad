/// Not installed. SharedMemory: pages that processes of one machine share, written by the process that made them and
/// mapped for reading by the others. They have no name: who has the descriptor may map them, and they are gone with
/// the last mapping.
#pragma once
#include <tandem/core/export.h>
#include <tandem/parallel/descriptor.h>

#include <cstddef>

namespace tandem {

class TANDEM_API SharedMemory {
 public:
  /// New pages, zero. Reserved at once, so that no later write can end the process, and sealed: nobody can shrink or
  /// grow them, nor (where the system knows that seal) map them for writing. Throws CommError.
  static SharedMemory make(size_t bytes);
  /// Another process's, for reading. Throws CommError where they have another size or could be shrunk.
  static SharedMemory open(Descriptor descriptor, size_t bytes);

  SharedMemory(SharedMemory&& other) noexcept;
  SharedMemory& operator=(SharedMemory&&) = delete;
  ~SharedMemory();

  std::byte* data() const { return data_; }
  size_t size() const { return bytes_; }
  const Descriptor& descriptor() const { return descriptor_; }
  /// The mapping stays; nobody else can be given it any more.
  void close_descriptor() { descriptor_ = Descriptor(); }

 private:
  SharedMemory(Descriptor descriptor, size_t bytes, int protection);
  Descriptor descriptor_;
  std::byte* data_ = nullptr;
  size_t bytes_ = 0;
};

}  // namespace tandem
