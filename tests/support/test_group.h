/// Groups for tests of transports: memberships without a store, ranks as threads, and address books in memory or in a
/// folder.
#pragma once
#include <tandem/parallel/address_book.h>
#include <tandem/parallel/membership.h>
#include <tandem/parallel/transport.h>

#include <condition_variable>
#include <functional>
#include <map>
#include <mutex>
#include <span>
#include <string>
#include <vector>

namespace tandem::test {

class TestMembership;

/// The memberships of a process, which learn of each other's verdicts at once.
struct TestHub {
  std::mutex mutex;
  std::vector<TestMembership*> members;
};

class TestMembership final : public Membership {
 public:
  TestMembership(TestHub& hub, int rank, int size, std::chrono::milliseconds timeout = std::chrono::seconds(20));
  ~TestMembership() override;
  std::unique_ptr<Transport> connect(const std::shared_ptr<Channel>& channel) override;
  void leave(const std::string&) override {}
  /// Blames those of this process's ranks that are furthest behind.
  void expired(const Channel& channel, const std::string& what) override;

 private:
  void tell_all(int culprit, const std::string& why) override;
  TestHub& hub_;
};

class MemoryBook final : public AddressBook {
 public:
  void put(const std::string& key, const std::string& value) override;
  std::string get(const std::string& key, Wait& wait) override;

 private:
  std::mutex mutex_;
  std::condition_variable changed_;
  std::map<std::string, std::string> entries_;
};

/// Between processes: a file for each entry.
class FolderBook final : public AddressBook {
 public:
  explicit FolderBook(std::string folder) : folder_(std::move(folder)) {}
  void put(const std::string& key, const std::string& value) override;
  std::string get(const std::string& key, Wait& wait) override;

 private:
  std::string path(const std::string& key) const;
  const std::string folder_;
};

using MakeTransport = std::function<std::unique_ptr<Transport>(Membership&, std::shared_ptr<Channel>, AddressBook&)>;

/// A rank of a channel of all, as a communicator would use it.
class TestRank {
 public:
  TestRank(TestHub& hub, AddressBook& book, const MakeTransport& make, int rank, int size,
           std::chrono::milliseconds timeout = std::chrono::seconds(20));

  int rank() const { return channel_->rank; }
  int size() const { return int(channel_->members.size()); }
  Membership& membership() { return membership_; }

  struct Weight {
    double value = 1;
    bool skip = false;
  };
  /// In place, of values of that dtype.
  void all_reduce(std::span<std::byte> data, Reduction reduction, const Weight* weight = nullptr);
  void exchange(std::span<const Part> parts, uint64_t elements = 0);
  void send(int to, std::span<const std::byte> data);
  void recv(int from, std::span<std::byte> data);
  void barrier() { exchange(std::vector<Part>(size_t(size()))); }
  /// Ends this rank's side.
  void close() { transport_ = nullptr; }

 private:
  Header header(Collective::Kind kind, uint64_t elements);
  template <class Verb>
  void run(Header h, int partner, Verb verb);

  TestMembership membership_;
  const std::shared_ptr<Channel> channel_;
  std::unique_ptr<Transport> transport_;
};

/// Runs the function once per rank, each on a thread of its own; what each ended in, empty where all went well.
std::vector<std::string> run_ranks(int size, const MakeTransport& make, const std::function<void(TestRank&)>& rank,
                                   std::chrono::milliseconds timeout = std::chrono::seconds(20));

}  // namespace tandem::test
