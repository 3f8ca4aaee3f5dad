#include <tandem/core/error.h>
#include <tandem/data/cifar_pickle.h>

#include <cstring>
#include <deque>
#include <string_view>

namespace tandem::data {
namespace {

constexpr int64_t kPixels = 3072;
constexpr size_t kMaxValues = 200'000;  // theirs have some 20,000: a label and a file name for each image

struct Value;
using Ref = Value*;  // into the reader's store: values may contain each other in any way

struct Value {
  enum Kind { mark, none, boolean, integer, text, list, tuple, dict, global, dtype, array } kind;
  int64_t number = 0;
  std::string_view bytes;  // of text, global ("module name"), dtype and a finished array
  std::vector<Ref> items;  // of list, tuple, dict (key, value, ...) and a finished array's shape
};

constexpr std::string_view kReconstruct = "numpy.core.multiarray _reconstruct", kArray = "numpy ndarray",
                           kDtype = "numpy dtype";

class Unpickler {
 public:
  Unpickler(std::span<const uint8_t> bytes, const std::string& name)
      : at_(bytes.data()), left_(bytes.size()), name_(name) {}

  Ref run() {
    check<IoError>(byte() == 0x80 && byte() == 2, "[CIFAR10] ", name_, " is no pickle of protocol 2");
    while (true) {
      const uint8_t op = byte();
      if (op == '.') break;
      step(op);
    }
    require(stack_.size() == 1 && left_ == 0, "its end is not where it should be");
    return pop();
  }

 private:
  void require(bool ok, const char* what) const { check<IoError>(ok, "[CIFAR10] ", name_, ": ", what); }

  std::string_view take(size_t n) {
    require(n <= left_, "it is cut off");
    std::string_view s(reinterpret_cast<const char*>(at_), n);
    at_ += n;
    left_ -= n;
    return s;
  }
  uint8_t byte() { return uint8_t(take(1)[0]); }
  uint32_t number(int bytes) {
    uint32_t v = 0;
    for (int i = 0; i < bytes; ++i) v |= uint32_t(byte()) << 8 * i;
    return v;
  }
  std::string_view line() {
    const void* end = std::memchr(at_, '\n', left_);
    require(end, "it is cut off");
    std::string_view s = take(size_t(static_cast<const uint8_t*>(end) - at_));
    take(1);
    return s;
  }

  Ref make(Value::Kind kind, int64_t number = 0, std::string_view bytes = {}) {
    return &values_.emplace_back(Value{kind, number, bytes, {}});
  }
  void push(Ref v) {
    require(++pushed_ <= kMaxValues, "it has too many values");
    stack_.push_back(v);
  }
  Ref pop() {
    require(!stack_.empty(), "a value is missing");
    Ref v = stack_.back();
    stack_.pop_back();
    return v;
  }
  Ref top(Value::Kind kind) {
    require(!stack_.empty() && stack_.back()->kind == kind, "a value is of the wrong kind");
    return stack_.back();
  }
  // What lies above the last mark.
  std::vector<Ref> pop_to_mark() {
    size_t from = stack_.size();
    while (from > 0 && stack_[from - 1]->kind != Value::mark) --from;
    require(from > 0, "a mark is missing");
    std::vector<Ref> items(stack_.begin() + long(from), stack_.end());
    stack_.resize(from - 1);
    return items;
  }
  void push_tuple(std::vector<Ref> items) {
    Ref t = make(Value::tuple);
    t->items = std::move(items);
    push(t);
  }
  void push_tuple_of(size_t n) {
    std::vector<Ref> items(n);
    for (size_t i = n; i-- > 0;) items[i] = pop();
    push_tuple(std::move(items));
  }
  void remember(uint32_t index) {
    require(!stack_.empty(), "a value is missing");
    require(index < kMaxValues, "an index is out of range");
    if (index >= memo_.size()) memo_.resize(index + 1);
    memo_[index] = stack_.back();
  }
  void recall(uint32_t index) {
    require(index < memo_.size() && memo_[index], "an index is out of range");
    push(memo_[index]);
  }
  void extend(Value::Kind kind, std::vector<Ref> items) {
    require(kind != Value::dict || items.size() % 2 == 0, "a key has no value");
    Ref to = top(kind);
    to->items.insert(to->items.end(), items.begin(), items.end());
  }

  // module, name: a name among three, kept as text.
  void push_global() {
    const std::string_view module = line(), name = line();
    const std::string full = std::string(module) + " " + std::string(name);
    for (std::string_view known : {kReconstruct, kArray, kDtype})
      if (full == known) return push(make(Value::global, 0, known));
    throw IoError(message("[CIFAR10] ", name_, " asks for ", full.substr(0, 80), ", which is refused"));
  }
  // What NumPy's arrays look like before they are filled, and their element type: not calls, though written as such.
  void reduce() {
    Ref args = pop(), callee = pop();
    require(callee->kind == Value::global && args->kind == Value::tuple && args->items.size() == 3, "it is no array");
    const Ref first = args->items[0];
    if (callee->bytes == kReconstruct) {
      require(first->kind == Value::global && first->bytes == kArray, "it is no array");
      push(make(Value::array));
    } else {
      require(callee->bytes == kDtype && first->kind == Value::text, "it is no array");
      push(make(Value::dtype, 0, first->bytes));
    }
  }
  void build() {
    Ref state = pop();
    require(state->kind == Value::tuple && !stack_.empty(), "it is no array");
    Value& to = *stack_.back();
    if (to.kind == Value::dtype) return;  // byte order and the like: of bytes there is none
    const auto& s = state->items;         // version, shape, dtype, Fortran order, bytes
    require(to.kind == Value::array && s.size() == 5 && s[1]->kind == Value::tuple && s[2]->kind == Value::dtype &&
                s[2]->bytes == "u1" && s[3]->kind == Value::boolean && !s[3]->number && s[4]->kind == Value::text,
            "it is no array of bytes");
    to.items = s[1]->items;
    to.bytes = s[4]->bytes;
  }

  void step(uint8_t op) {
    switch (op) {
      case '(': return push(make(Value::mark));
      case 'N': return push(make(Value::none));
      case 0x88: return push(make(Value::boolean, 1));
      case 0x89: return push(make(Value::boolean, 0));
      case 'K': return push(make(Value::integer, number(1)));
      case 'M': return push(make(Value::integer, number(2)));
      case 'J': return push(make(Value::integer, int32_t(number(4))));
      case 'U': return push(make(Value::text, 0, take(number(1))));
      case 'T': return push(make(Value::text, 0, take(number(4))));
      case ']': return push(make(Value::list));
      case '}': return push(make(Value::dict));
      case ')': return push(make(Value::tuple));
      case 0x85: return push_tuple_of(1);
      case 0x86: return push_tuple_of(2);
      case 0x87: return push_tuple_of(3);
      case 't': return push_tuple(pop_to_mark());
      case 'a': return extend(Value::list, {pop()});
      case 'e': return extend(Value::list, pop_to_mark());
      case 's': {
        Ref value = pop(), key = pop();
        return extend(Value::dict, {key, value});
      }
      case 'u': return extend(Value::dict, pop_to_mark());
      case 'q': return remember(number(1));
      case 'r': return remember(number(4));
      case 'h': return recall(number(1));
      case 'j': return recall(number(4));
      case 'c': return push_global();
      case 'R': return reduce();
      case 'b': return build();
    }
    throw IoError(message("[CIFAR10] ", name_, " contains the pickle instruction ", int(op), ", which is refused"));
  }

  const uint8_t* at_;
  size_t left_;
  const std::string& name_;
  std::deque<Value> values_;  // stay where they are
  std::vector<Ref> stack_, memo_;
  size_t pushed_ = 0;
};

}  // namespace

CifarPickle read_cifar_pickle(std::span<const uint8_t> bytes, const std::string& name) {
  Unpickler reader(bytes, name);
  const Ref root = reader.run();
  check<IoError>(root->kind == Value::dict, "[CIFAR10] ", name, " holds no dictionary");
  Ref data = nullptr, labels = nullptr;
  for (size_t i = 0; i + 1 < root->items.size(); i += 2) {
    if (root->items[i]->kind != Value::text) continue;
    if (root->items[i]->bytes == "data") data = root->items[i + 1];
    if (root->items[i]->bytes == "labels") labels = root->items[i + 1];
  }
  check<IoError>(data && data->kind == Value::array && labels && labels->kind == Value::list, "[CIFAR10] ", name,
                 " lacks \"data\" or \"labels\"");
  CifarPickle p;
  p.rows = int64_t(labels->items.size());
  const auto& shape = data->items;
  check<IoError>(shape.size() == 2 && shape[0]->kind == Value::integer && shape[0]->number == p.rows &&
                     shape[1]->kind == Value::integer && shape[1]->number == kPixels &&
                     int64_t(data->bytes.size()) == p.rows * kPixels,
                 "[CIFAR10] ", name, ": its ", p.rows, " labels and ", data->bytes.size(),
                 " bytes of images do not fit together");
  for (Ref v : labels->items) {
    check<IoError>(v->kind == Value::integer, "[CIFAR10] ", name, ": a label is no number");
    p.labels.push_back(v->number);
  }
  p.pixels = {reinterpret_cast<const uint8_t*>(data->bytes.data()), data->bytes.size()};
  return p;
}

}  // namespace tandem::data
