#include <tandem/core/error.h>
#include <tandem/parallel/store_keys.h>

#include <charconv>

namespace tandem {
namespace {

constexpr int64_t kLongestWaitMs = int64_t{1000} * 3600 * 24 * 365;

// False where it is none.
bool to_number(const std::string& text, int64_t& number) {
  const char* end = text.data() + text.size();
  const auto [stop, error] = std::from_chars(text.data(), end, number);
  return error == std::errc{} && stop == end;
}

}  // namespace

bool StoreKeys::handle(const std::shared_ptr<StorePeer>& peer, StoreOp op, uint64_t id, FrameReader& body) {
  switch (op) {
    case StoreOp::set: {
      const std::string key = body.text();
      put(key, body.text());
      peer->send(StoreOp::ok, id);
      return true;
    }
    case StoreOp::get: {
      const std::string key = body.text();
      const std::chrono::milliseconds timeout(body.number(0, kLongestWaitMs));
      if (auto it = values_.find(key); it != values_.end())
        peer->send(StoreOp::ok, id, it->second);
      else
        waiters_.push_back({peer, id, key, timeout, Clock::now() + timeout});
      return true;
    }
    case StoreOp::add: {
      const std::string key = body.text();
      int64_t sum = 0;
      const auto it = values_.find(key);
      if (it != values_.end() && !to_number(it->second, sum)) {
        peer->send(StoreOp::refused, id, message("add: key '", key, "' holds no number"));
        return true;
      }
      const std::string value = message(int64_t(uint64_t(sum) + uint64_t(body.number())));
      put(key, value);
      peer->send(StoreOp::ok, id, value);
      return true;
    }
    case StoreOp::compare_set: {
      const std::string key = body.text(), expected = body.text(), desired = body.text();
      const auto it = values_.find(key);
      if (it == values_.end() ? expected.empty() : it->second == expected) put(key, desired);
      const auto now = values_.find(key);
      peer->send(StoreOp::ok, id, now == values_.end() ? expected : now->second);
      return true;
    }
    default: return false;
  }
}

void StoreKeys::put(const std::string& key, std::string value) {
  const std::string& kept = values_[key] = std::move(value);
  std::erase_if(waiters_, [&](const Waiter& w) {
    if (w.key != key) return false;
    w.peer->send(StoreOp::ok, w.id, kept);
    return true;
  });
}

void StoreKeys::tick(Clock::time_point now) {
  std::erase_if(waiters_, [&](const Waiter& w) {
    if (now < w.deadline) return false;
    w.peer->send(StoreOp::refused, w.id, message("key '", w.key, "' was not set within ", w.timeout.count(), " ms"));
    return true;
  });
}

void StoreKeys::forget(const StorePeer* peer) {
  std::erase_if(waiters_, [&](const Waiter& w) { return w.peer.get() == peer; });
}

}  // namespace tandem
