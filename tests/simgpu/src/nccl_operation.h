/// What a communicator does on its stream: collectives and messages, step by step, as far as its peers have come.
#pragma once
#include <memory>
#include <vector>

#include "nccl_communicator.h"

namespace simgpu {

enum class CallKind : int32_t { all_reduce, reduce, broadcast, all_gather, reduce_scatter, send, receive };
const char* name_of(CallKind kind);

/// One call, checked.
struct CommunicatorCall {
  CallKind kind;
  const void* from;
  void* to;
  size_t count;
  ncclDataType_t type;
  int op = ncclSum;  // as it was called, to be compared with the peers'
  Reduction reduction{};
  int root = 0;  // or the peer of a message

  bool is_message() const { return kind == CallKind::send || kind == CallKind::receive; }
  /// Elements read from `from` and written to `to` by that rank.
  size_t elements_read(const Communicator& c) const;
  size_t elements_written(const Communicator& c) const;
};

/// Queues the calls as one operation; a node of the graph where the stream is captured.
void submit_calls(const std::shared_ptr<Communicator>& c, Stream& s, std::vector<CommunicatorCall> calls);

/// A collective as far as it has come.
class Exchange {
 public:
  Exchange(const CommunicatorCall& call, Communicator& c);
  Step step();

 private:
  enum class Phase { post, reduce, gather };
  Step post();
  Step reduce();
  Step gather();
  void end_chunk();
  void check_signatures() const;
  std::string describe(const CollectiveSignature& s, int rank) const;
  size_t slice(size_t i) const { return length_ * i / size_t(c_.ranks); }

  const CommunicatorCall& call_;
  Communicator& c_;
  CollectiveSignature signature_;
  Phase phase_ = Phase::post;
  size_t chunk_elements_, offset_ = 0, length_ = 0;  // elements
  uint64_t chunk_ = 0;
};

/// A message as far as it has come, on the side of its sender or its receiver.
class Message {
 public:
  Message(const CommunicatorCall& call, Communicator& c);
  Step step();
  /// Messages between two ranks pass one after the other, each way.
  bool goes_with(const Message& other) const { return &box_ == &other.box_ && call_.kind == other.call_.kind; }

 private:
  Step send();
  Step receive();

  const CommunicatorCall& call_;
  Communicator& c_;
  Mailbox& box_;
  char* window_;
  size_t bytes_, done_ = 0;
};

}  // namespace simgpu
