#include <tandem/nn/safetensors_header.h>

#include <nlohmann/json.hpp>

#include <algorithm>
#include <limits>
#include <optional>
#include <unordered_set>

namespace tandem::detail {
namespace {

struct DtypeName {
  Dtype dtype;
  std::string_view name;
};
constexpr DtypeName kDtypeNames[] = {{Dtype::f32, "F32"},   {Dtype::f64, "F64"},     {Dtype::f16, "F16"},
                                     {Dtype::bf16, "BF16"}, {Dtype::i64, "I64"},     {Dtype::i32, "I32"},
                                     {Dtype::u8, "U8"},     {Dtype::boolean, "BOOL"}};

// One element's bytes times all sizes; empty where a 64-bit count can't hold it. Sizes of 0 are left out of the test,
// so that strides of an empty tensor can't overflow either.
std::optional<uint64_t> checked_bytes(const Dims& shape, Dtype dtype) {
  uint64_t bytes = size_of(dtype);
  bool nothing = false;
  for (int64_t n : shape) {
    if (n == 0)
      nothing = true;
    else if (bytes > uint64_t(std::numeric_limits<int64_t>::max()) / uint64_t(n))
      return {};
    else
      bytes *= uint64_t(n);
  }
  return nothing ? 0 : bytes;
}

// Follows the parser's events, so that no tree is built and nothing can nest deeper than the format does:
// { name: { "dtype": text, "shape": [n...], "data_offsets": [n, n] }..., "__metadata__": { text: text... } }
class Reader {
 public:
  Reader(SafetensorsHeader& header, uint64_t data_bytes, const std::string& file)
      : header_(header), data_bytes_(data_bytes), file_(file) {}

  bool start_object(size_t) {
    if (at_ == At::start)
      at_ = At::names;
    else if (at_ == At::names)
      at_ = name_ == kMetadataKey ? At::metadata : At::info;
    else
      unexpected("an object");
    return true;
  }

  bool key(std::string& k) {
    if (at_ == At::names) {
      require(names_.insert(k).second, shown(k), " stands twice in the header");
      name_ = k;
      entry_ = {};
      entry_.name = k;
      has_dtype_ = has_shape_ = has_offsets_ = false;
    } else if (at_ == At::metadata) {
      require(!header_.metadata.contains(k), "the metadata has ", shown(k), " twice");
    } else {
      bool* seen = k == "dtype"          ? &has_dtype_
                   : k == "shape"        ? &has_shape_
                   : k == "data_offsets" ? &has_offsets_
                                         : nullptr;
      require(seen, "tensor ", shown(name_), " has an unknown field ", shown(k));
      require(!std::exchange(*seen, true), "tensor ", shown(name_), " has ", k, " twice");
    }
    field_ = k;
    return true;
  }

  bool string(std::string& s) {
    if (at_ == At::metadata) {
      header_.metadata[field_] = s;
    } else if (at_ == At::info && field_ == "dtype") {
      auto* d = std::find_if(std::begin(kDtypeNames), std::end(kDtypeNames), [&](auto& n) { return n.name == s; });
      require(d != std::end(kDtypeNames), "tensor ", shown(name_), " has dtype ", shown(s), ", which is not supported");
      entry_.dtype = d->dtype;
    } else {
      unexpected("a string");
    }
    return true;
  }

  bool start_array(size_t) {
    if (at_ != At::info || field_ == "dtype") unexpected("a list");
    at_ = At::list;
    n_offsets_ = 0;
    return true;
  }

  bool number_unsigned(uint64_t v) {
    if (at_ != At::list) unexpected("a number");
    if (field_ == "shape") {
      require(v <= uint64_t(std::numeric_limits<int64_t>::max()), "tensor ", shown(name_), " has a size of ", v);
      require(entry_.shape.size() < kMaxDims, "tensor ", shown(name_), " has more than ", kMaxDims, " dimensions");
      entry_.shape.push_back(int64_t(v));
    } else {
      require(n_offsets_ < 2, "tensor ", shown(name_), " has more than two data_offsets");
      (n_offsets_++ == 0 ? entry_.begin : entry_.end) = v;
    }
    return true;
  }

  bool end_array() {
    at_ = At::info;
    require(field_ == "shape" || n_offsets_ == 2, "tensor ", shown(name_), " has ", n_offsets_, " data_offsets, not 2");
    return true;
  }

  bool end_object() {
    if (at_ == At::info) finish_entry();
    at_ = at_ == At::names ? At::end : At::names;
    return true;
  }

  bool null() { unexpected("null"); }
  bool boolean(bool) { unexpected("true or false"); }
  bool number_integer(int64_t) { unexpected("a negative number"); }
  bool number_float(double, const std::string&) { unexpected("a number that is no 64-bit integer"); }
  bool binary(std::vector<uint8_t>&) { unexpected("binary data"); }
  bool parse_error(size_t position, const std::string&, const std::exception&) {
    // The parser's own message quotes the last token, however long.
    throw IoError(message(file_, ": the header is not valid JSON, at byte ", position));
  }

 private:
  enum class At { start, names, metadata, info, list, end };

  template <class... Parts>
  void require(bool ok, const Parts&... parts) const {
    check<IoError>(ok, file_, ": ", parts...);
  }

  [[noreturn]] void unexpected(const char* what) const {
    std::string where;
    if (at_ == At::start) where = "the header";
    if (at_ == At::names) where = shown(name_);
    if (at_ == At::metadata) where = "metadata " + shown(field_);
    if (at_ == At::info || at_ == At::list) where = field_ + " of tensor " + shown(name_);
    throw IoError(message(file_, ": ", where, " is or has ", what));
  }

  void finish_entry() {
    std::string who = "tensor " + shown(name_);
    require(has_dtype_ && has_shape_ && has_offsets_, who, " lacks ",
            !has_dtype_   ? "dtype"
            : !has_shape_ ? "shape"
                          : "data_offsets");
    require(entry_.begin <= entry_.end && entry_.end <= data_bytes_, who, " lies at bytes ", entry_.begin, " to ",
            entry_.end, ", the file has ", data_bytes_, " bytes of data");
    auto bytes = checked_bytes(entry_.shape, entry_.dtype);
    require(bytes.has_value(), who, " of shape ", entry_.shape, " is larger than any file");
    require(*bytes == entry_.end - entry_.begin, who, " of shape ", entry_.shape, " and dtype ", entry_.dtype,
            " takes ", *bytes, " bytes, its data_offsets give ", entry_.end - entry_.begin);
    header_.tensors.push_back(std::move(entry_));
  }

  SafetensorsHeader& header_;
  uint64_t data_bytes_;
  const std::string& file_;
  At at_ = At::start;
  std::unordered_set<std::string> names_;
  std::string name_, field_;  // the keys last read, of the outer and of the current object
  SafetensorsEntry entry_;
  bool has_dtype_ = false, has_shape_ = false, has_offsets_ = false;
  int n_offsets_ = 0;
};

void check_coverage(const SafetensorsHeader& header, uint64_t data_bytes, const std::string& file) {
  std::vector<const SafetensorsEntry*> by_place;
  for (auto& e : header.tensors) by_place.push_back(&e);
  std::sort(by_place.begin(), by_place.end(),
            [](auto* a, auto* b) { return a->begin != b->begin ? a->begin < b->begin : a->end < b->end; });
  uint64_t at = 0;
  for (auto* e : by_place) {
    check<IoError>(e->begin >= at, file, ": tensor ", shown(e->name), " begins at byte ", e->begin,
                   ", inside the tensor before it, which ends at ", at);
    check<IoError>(e->begin == at, file, ": bytes ", at, " to ", e->begin, " belong to no tensor");
    at = e->end;
  }
  check<IoError>(at == data_bytes, file, ": bytes ", at, " to ", data_bytes, " belong to no tensor");
}

}  // namespace

std::string shown(std::string_view name) {
  constexpr size_t kLongest = 120;
  std::string s = "\"";
  for (char c : name.substr(0, kLongest)) s += uint8_t(c) < 0x20 || c == 0x7f ? '?' : c;
  return s += name.size() > kLongest ? "...\"" : "\"";
}

SafetensorsHeader parse_safetensors_header(std::string_view json, uint64_t data_bytes, const std::string& file) {
  check<IoError>(json.starts_with('{'), file, ": the header does not begin with {");
  // The parser takes a zero byte for the end of its input and would not see what follows.
  check<IoError>(json.find('\0') == json.npos, file, ": the header has a zero byte");
  SafetensorsHeader header;
  Reader reader(header, data_bytes, file);
  nlohmann::json::sax_parse(json.begin(), json.end(), &reader);
  check_coverage(header, data_bytes, file);
  if (auto sum = header.metadata.extract(kChecksumKey)) header.checksum = std::move(sum.mapped());
  return header;
}

std::string write_safetensors_header(const SafetensorsHeader& header) {
  nlohmann::ordered_json j = nlohmann::ordered_json::object();
  Metadata metadata = header.metadata;
  if (!header.checksum.empty()) metadata[kChecksumKey] = header.checksum;
  if (!metadata.empty()) j[std::string(kMetadataKey)] = metadata;
  for (auto& e : header.tensors) {
    auto* d = std::find_if(std::begin(kDtypeNames), std::end(kDtypeNames), [&](auto& n) { return n.dtype == e.dtype; });
    j.push_back({e.name, {{"dtype", d->name}, {"shape", e.shape.vec()}, {"data_offsets", {e.begin, e.end}}}});
  }
  try {
    return j.dump();
  } catch (const nlohmann::json::exception&) {
    throw Error("[save] a tensor's name or a metadata text is not UTF-8");
  }
}

}  // namespace tandem::detail
