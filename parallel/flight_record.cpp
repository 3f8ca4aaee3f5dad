#include <tandem/core/error.h>
#include <tandem/parallel/communicator.h>
#include <tandem/parallel/flight_record.h>

#include <algorithm>

namespace tandem {
namespace {

const char* name_of(FlightRecord::Entry::State s) {
  switch (s) {
    case FlightRecord::Entry::State::running: return "running";
    case FlightRecord::Entry::State::done: return "done";
    case FlightRecord::Entry::State::failed: return "failed";
  }
  return "?";
}

std::string quoted(const std::string& label) { return label.empty() ? "" : message(" '", label, "'"); }

double milliseconds(FlightRecord::Clock::duration d) { return std::chrono::duration<double, std::milli>(d).count(); }

}  // namespace

void FlightRecord::begin(const Header& header, const std::string& label) {
  const auto now = Clock::now();
  std::lock_guard lock(mutex_);
  if (ring_.empty()) ring_.resize(kKept);
  Entry& e = ring_[begun_++ % kKept];
  e.header = header;
  e.label = label;  // into memory that it has from those before
  e.started = now;
  e.state = Entry::State::running;
}

void FlightRecord::end(bool well) {
  const auto now = Clock::now();
  std::lock_guard lock(mutex_);
  Entry& e = ring_[(begun_ - 1) % kKept];
  e.ended = now;
  e.state = well ? Entry::State::done : Entry::State::failed;
}

std::vector<FlightRecord::Entry> FlightRecord::entries() const {
  std::lock_guard lock(mutex_);
  std::vector<Entry> list;
  for (uint64_t i = begun_ - std::min<uint64_t>(begun_, kKept); i < begun_; ++i) list.push_back(ring_[i % kKept]);
  return list;
}

std::string short_text(const FlightRecord& record, size_t last) {
  const auto entries = record.entries();
  std::string s;
  for (size_t i = entries.size() - std::min(last, entries.size()); i < entries.size(); ++i) {
    const auto& e = entries[i];
    s += message(s.empty() ? "" : "; ", "number ", e.header.sequence, ' ', Collective::Kind(e.header.kind),
                 quoted(e.label), ' ', name_of(e.state));
  }
  return s;
}

std::string long_text(const FlightRecord& record, FlightRecord::Clock::time_point now) {
  std::string s;
  for (auto& e : record.entries()) {
    const bool running = e.state == FlightRecord::Entry::State::running;
    s += message("  ", e.header, quoted(e.label), ": ", name_of(e.state), ", started ", milliseconds(now - e.started),
                 " ms before");
    if (!running) s += message(", took ", milliseconds(e.ended - e.started), " ms");
    s += '\n';
  }
  return s;
}

}  // namespace tandem
