#include "tests/support/test_group.h"

#include "tests/support/temporary_folder.h"

#include <algorithm>
#include <filesystem>
#include <thread>

namespace tandem::test {

TestMembership::TestMembership(TestHub& hub, int rank, int size, std::chrono::milliseconds timeout)
    : Membership(rank, size, timeout), hub_(hub) {
  std::lock_guard lock(hub_.mutex);
  hub_.members.push_back(this);
}

TestMembership::~TestMembership() {
  std::lock_guard lock(hub_.mutex);
  std::erase(hub_.members, this);
}

std::unique_ptr<Transport> TestMembership::connect(const std::shared_ptr<Channel>&) {
  throw CommError("a test's membership connects nobody");
}

void TestMembership::tell_all(int culprit, const std::string& why) {
  std::lock_guard lock(hub_.mutex);
  for (TestMembership* m : hub_.members) m->fail(culprit, why);
}

void TestMembership::expired(const Channel& channel, const std::string& what) {
  std::lock_guard lock(hub_.mutex);
  std::vector<Progress> progress;
  for (TestMembership* m : hub_.members)
    for (auto& c : m->channels())
      if (c->id == channel.id) progress.push_back({c->sequence.load(), c->steps.load()});
  const std::vector<int> behind = laggards(progress);
  const int culprit = behind.empty() ? -1 : hub_.members[size_t(behind[0])]->rank();
  for (TestMembership* m : hub_.members) m->fail(culprit, message("[", what, "] deadline: rank ", culprit, " lags"));
}

void MemoryBook::put(const std::string& key, const std::string& value) {
  std::lock_guard lock(mutex_);
  check<CommError>(entries_.emplace(key, value).second, "the key ", key, " has been put twice");
  changed_.notify_all();
}

std::string MemoryBook::get(const std::string& key, Wait& wait) {
  std::unique_lock lock(mutex_);
  while (!entries_.contains(key)) {
    changed_.wait_for(lock, std::min(wait.nap(), std::chrono::milliseconds(20)));
    lock.unlock();
    wait.check();
    lock.lock();
  }
  return entries_[key];
}

std::string FolderBook::path(const std::string& key) const {
  std::string name = key;
  std::replace(name.begin(), name.end(), '/', '_');
  return folder_ + "/" + name;
}

void FolderBook::put(const std::string& key, const std::string& value) {
  write_text(path(key) + ".part", value);
  std::filesystem::rename(path(key) + ".part", path(key));
}

std::string FolderBook::get(const std::string& key, Wait& wait) {
  while (!std::filesystem::exists(path(key))) {
    std::this_thread::sleep_for(std::chrono::milliseconds(2));
    wait.check();
  }
  return read_text(path(key));
}

namespace {

std::vector<int> first_numbers(int n) {
  std::vector<int> all;
  for (int i = 0; i < n; ++i) all.push_back(i);
  return all;
}

}  // namespace

TestRank::TestRank(TestHub& hub, AddressBook& book, const MakeTransport& make, int rank, int size,
                   std::chrono::milliseconds timeout)
    : membership_(hub, rank, size, timeout),
      channel_(membership_.open("world", first_numbers(size))),
      transport_(make(membership_, channel_, book)) {}

Header TestRank::header(Collective::Kind kind, uint64_t elements) {
  Header h;
  h.channel = channel_->id;
  h.kind = uint8_t(kind);
  h.elements = elements;
  return h;
}

template <class Verb>
void TestRank::run(Header h, int partner, Verb verb) {
  h.sequence = partner < 0 ? channel_->begin() : channel_->begin(partner, h.kind == uint8_t(Collective::Kind::send));
  membership_.check();
  const std::string label = "a test";
  Wait wait(membership_, *channel_, h, label, membership_.timeout());
  verb(*transport_, h, wait);
  channel_->end(true);
}

void TestRank::all_reduce(std::span<std::byte> data, Reduction reduction, const Weight* weight) {
  Header h = header(Collective::Kind::all_reduce, data.size() / size_of(reduction.dtype));
  h.dtype = uint8_t(reduction.dtype);
  h.op = uint8_t(reduction.op);
  if (weight) {
    h.weighted = 1;
    h.weight = weight->value;
    h.skip = weight->skip;
  }
  run(h, -1, [&](Transport& t, const Header& of, Wait& wait) { t.all_reduce(of, data, reduction, wait); });
}

void TestRank::exchange(std::span<const Part> parts, uint64_t elements) {
  run(header(Collective::Kind::all_to_all, elements), -1,
      [&](Transport& t, const Header& h, Wait& wait) { t.exchange(h, parts, wait); });
}

void TestRank::send(int to, std::span<const std::byte> data) {
  run(header(Collective::Kind::send, data.size()), to,
      [&](Transport& t, const Header& h, Wait& wait) { t.transfer(h, to, data, {}, wait); });
}

void TestRank::recv(int from, std::span<std::byte> data) {
  run(header(Collective::Kind::recv, data.size()), from,
      [&](Transport& t, const Header& h, Wait& wait) { t.transfer(h, from, {}, data, wait); });
}

std::vector<std::string> run_ranks(int size, const MakeTransport& make, const std::function<void(TestRank&)>& rank,
                                   std::chrono::milliseconds timeout) {
  TestHub hub;
  MemoryBook book;
  std::vector<std::string> ends(static_cast<size_t>(size));
  std::vector<std::thread> threads;
  for (int r = 0; r < size; ++r)
    threads.emplace_back([&, r] {
      try {
        TestRank self(hub, book, make, r, size, timeout);
        rank(self);
      } catch (const std::exception& e) {
        ends[size_t(r)] = *e.what() ? e.what() : "an error without words";
      }
    });
  for (auto& t : threads) t.join();
  return ends;
}

}  // namespace tandem::test
