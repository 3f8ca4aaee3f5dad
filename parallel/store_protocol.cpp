#include <tandem/core/error.h>
#include <tandem/parallel/store_protocol.h>

#include <cstring>

namespace tandem {

FrameWriter& FrameWriter::text(std::string_view s) {
  number(int64_t(s.size()));
  body_.append(s);
  return *this;
}

FrameWriter& FrameWriter::number(int64_t v) {
  char bytes[sizeof v];
  std::memcpy(bytes, &v, sizeof v);
  body_.append(bytes, sizeof v);
  return *this;
}

std::string_view FrameReader::take(size_t bytes) {
  check<CommError>(bytes <= rest_.size(), "a frame ends within a field");
  const std::string_view taken = rest_.substr(0, bytes);
  rest_.remove_prefix(bytes);
  return taken;
}

std::string FrameReader::text() { return std::string(take(size_t(number(0, kMaxFrameBytes)))); }

int64_t FrameReader::number() {
  int64_t v = 0;
  std::memcpy(&v, take(sizeof v).data(), sizeof v);
  return v;
}

int64_t FrameReader::number(int64_t least, int64_t most) {
  const int64_t v = number();
  check<CommError>(least <= v && v <= most, "a frame has ", v, " where ", least, " to ", most, " may stand");
  return v;
}

std::string to_frame(StoreOp op, uint64_t id, const std::string& body) {
  check<CommError>(body.size() <= kMaxFrameBytes, "[store] a request has ", body.size(), " bytes; ", kMaxFrameBytes,
                   " are the most");
  FrameHead head;
  head.bytes = uint32_t(body.size());
  head.op = op;
  head.id = id;
  std::string frame(reinterpret_cast<const char*>(&head), sizeof head);
  return frame + body;
}

}  // namespace tandem
