#include <tandem/core/log.h>
#include <tandem/parallel/mpi/mpi_process.h>
#include <tandem/parallel/token.h>

#include <mpi.h>
#include <unistd.h>

#include <algorithm>
#include <cstdlib>
#include <cstring>
#include <thread>

namespace tandem {
namespace {

using std::chrono::milliseconds;

constexpr int64_t kLeastTags = 32768;  // that every MPI has

static_assert(sizeof(MPI_Request) <= sizeof(uint64_t));

void require(int code, const char* what) {
  if (code == MPI_SUCCESS) return;
  char text[MPI_MAX_ERROR_STRING] = "?";
  int length = 0;
  MPI_Error_string(code, text, &length);
  throw CommError(message("[mpi] ", what, ": ", text));
}

void keep(MpiRequest& request, MPI_Request r) {
  std::memcpy(&request.handle, &r, sizeof r);
  request.under_way = true;
}

}  // namespace

struct MpiProcess::Comm {
  MPI_Comm value = MPI_COMM_NULL;
};

MpiProcess& MpiProcess::instance() {
  static auto& process = *new MpiProcess;  // never destroyed: its thread may wait for ever
  return process;
}

MpiProcess& MpiProcess::get(Wait& wait) {
  instance().await_start(wait);
  return instance();
}

void MpiProcess::await_start(Wait& wait) {
  std::unique_lock lock(mutex_);
  if (!asked_) {
    asked_ = true;
    std::thread([this] { run(); }).detach();
  }
  while (!started_) {
    changed_.wait_for(lock, std::min(wait.nap(), milliseconds(20)));
    lock.unlock();
    wait.check();
    lock.lock();
  }
  if (error_) std::rethrow_exception(error_);
}

// The thread that starts MPI, and ends it.
void MpiProcess::run() {
  std::exception_ptr error;
  bool own = false;
  try {
    own = start();
  } catch (...) {
    error = std::current_exception();
  }
  std::unique_lock lock(mutex_);
  error_ = error;
  started_ = true;
  changed_.notify_all();
  if (!own) return;
  process_ = ::getpid();
  std::atexit([] { instance().end(); });
  changed_.wait(lock, [&] { return ending_; });
  lock.unlock();
  MPI_Finalize();
  lock.lock();
  ended_ = true;
  changed_.notify_all();
}

// Whether it was not the program that had started it.
bool MpiProcess::start() {
  int by_program = 0, level = MPI_THREAD_SINGLE;
  MPI_Initialized(&by_program);
  if (by_program)
    MPI_Query_thread(&level);
  else
    require(MPI_Init_thread(nullptr, nullptr, MPI_THREAD_MULTIPLE, &level), "MPI_Init_thread");
  check<CommError>(level == MPI_THREAD_MULTIPLE, "[mpi] this MPI was ", by_program ? "started" : "built",
                   " without MPI_THREAD_MULTIPLE, and collectives run on several threads");
  auto comm = std::make_unique<Comm>();
  require(MPI_Comm_dup(MPI_COMM_WORLD, &comm->value), "MPI_Comm_dup");
  comm_ = comm.release();
  MPI_Comm_set_errhandler(comm_->value, MPI_ERRORS_RETURN);
  MPI_Comm_rank(comm_->value, &rank_);
  int there = 0, *highest = nullptr;
  MPI_Comm_get_attr(comm_->value, MPI_TAG_UB, &highest, &there);
  tags_ = there ? int64_t(*highest) + 1 : kLeastTags;
  Nonce job = make_nonce();
  require(MPI_Bcast(job.data(), int(job.size()), MPI_BYTE, 0, comm_->value), "MPI_Bcast");
  job_ = to_hex(job);
  return !by_program;
}

void MpiProcess::end() {
  std::unique_lock lock(mutex_);
  if (process_ != ::getpid()) return;  // a fork of it
  const char* why = failed_           ? "something has failed, and other ranks may never come to it"
                    : transports_ > 0 ? "a group is still there"
                                      : nullptr;
  if (!why) {
    ending_ = true;
    changed_.notify_all();
    if (changed_.wait_for(lock, patience_, [&] { return ended_; })) return;
    why = "other ranks did not come to it in time";
  }
  log(LogLevel::warning,
      message("[mpi] this process ends without MPI_Finalize: ", why, ". mpirun takes that for a failure"));
}

int MpiProcess::take_tags(size_t count) {
  std::lock_guard lock(mutex_);
  check<CommError>(next_tag_ + int64_t(count) <= tags_,
                   "[mpi] no tags are left for another communicator: this MPI has ", tags_);
  next_tag_ += int64_t(count);
  return int(next_tag_ - int64_t(count));
}

void MpiProcess::send(std::span<const std::byte> data, int process, int tag, MpiRequest& request) const {
  MPI_Request r;
  require(MPI_Isend(data.data(), int(data.size()), MPI_BYTE, process, tag, comm_->value, &r), "MPI_Isend");
  keep(request, r);
}

void MpiProcess::receive(std::span<std::byte> data, int process, int tag, MpiRequest& request) const {
  MPI_Request r;
  require(MPI_Irecv(data.data(), int(data.size()), MPI_BYTE, process, tag, comm_->value, &r), "MPI_Irecv");
  keep(request, r);
}

bool MpiProcess::over(MpiRequest& request) const {
  if (!request.under_way) return true;
  MPI_Request r;
  std::memcpy(&r, &request.handle, sizeof r);
  int is_over = 0;
  require(MPI_Test(&r, &is_over, MPI_STATUS_IGNORE), "MPI_Test");
  if (is_over) request.under_way = false;
  return is_over != 0;
}

void MpiProcess::transport_begins() {
  std::lock_guard lock(mutex_);
  ++transports_;
}

void MpiProcess::transport_ends(bool well, milliseconds patience) {
  std::lock_guard lock(mutex_);
  --transports_;
  failed_ |= !well;
  patience_ = std::max(patience_, patience);
}

}  // namespace tandem
