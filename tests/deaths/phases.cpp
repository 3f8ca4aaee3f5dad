#include "tests/deaths/phases.h"

#include "tests/deaths/training.h"

#include <tandem/core/copy.h>
#include <tandem/nn/adam.h>
#include <tandem/parallel/join_group.h>
#include <tandem/parallel/model_agreement.h>
#include <tandem/parallel/rendezvous.h>
#include <tandem/parallel/sync_batch_norm.h>
#include <tandem/parallel/transport.h>
#include <tandem/parallel/zero_redundancy_optimizer.h>

#include <algorithm>
#include <numeric>
#include <thread>

namespace tandem::deaths {
namespace {

using std::chrono::milliseconds;

const std::string kOrder = "'order of the gradients'", kSamples = "'samples and reached parameters'",
                  kBucket = "bucket ";

bool by_process(const Trial& t) { return t.transport != "threads"; }

// -- before there is a group ---------------------------------------------------------------------------------------

void never_comes(Part& p) { p.die(); }

// It waits for the last rank, which comes late.
void dies_while_joining(Part& p) {
  p.die_in(milliseconds(250));
  const int last = p.trial().victim == p.trial().ranks - 1 ? p.trial().ranks - 2 : p.trial().ranks - 1;
  if (p.rank() == last) std::this_thread::sleep_for(milliseconds(600));
}

// It is a member, and does not connect.
void does_not_connect(Part& p) {
  if (!p.is_victim()) return;
  const TransportFactory factory = [&](auto&, auto&) -> std::unique_ptr<Transport> {
    p.die();
    return nullptr;
  };
  const auto membership = join_group(parse_init_method("env://", -1, -1, process_environment()), factory);
  std::vector<int> all(static_cast<size_t>(p.trial().ranks));
  std::iota(all.begin(), all.end(), 0);
  const auto channel = membership->open("world", all);
  Connecting connecting(*membership, *channel);
  membership->connect(channel);
}

// -- training ------------------------------------------------------------------------------------------------------

void construction(Part& p) {
  Net net;
  if (p.is_victim()) {
    const auto communicator = p.group().new_communicator();
    p.die();
  }
  DistributedDataParallel ddp(net);
}

void broadcast(Part& p) {
  Net net;
  if (p.is_victim()) {
    const auto communicator = p.group().new_communicator();
    nn::NamedTensors state = net.named_parameters();
    for (auto& buffer : net.named_buffers()) state.push_back(buffer);
    require_same_model(*communicator, state);
    p.die();
  }
  DistributedDataParallel ddp(net);
}

void first_forward(Part& p) {
  Training t(p);
  t.net.in_forward = [&] { p.die(); };
  t.step();
}

void first_backward(Part& p) {
  Training t(p);
  t.net.in_backward = [&] { p.die(); };
  t.step();
}

// The hook's callbacks: a bucket's work has been started, is about to be, or has its second round.
void within_bucket(Part& p) {
  Training t(p, {.hidden = 20'000});
  t.hook({.started = [&](int bucket) {
    if (bucket == 1) p.die(milliseconds(0));
  }});
  t.step();
}

void between_buckets(Part& p) {
  Training t(p);
  t.hook({.starts = [&](int bucket) {
    if (bucket == 1) p.die();
  }});
  t.step();
}

void optimizer_step(Part& p) {
  Training t(p);
  t.before_update = [&] { p.die(); };
  t.step();
  t.step();
}

void sync_batch_norm(Part& p) {
  Training t(p, {.synchronise_norm = true});
  t.step();
  t.net.in_forward = [&] { p.die(); };
  t.step();
}

void evaluation(Part& p) {
  Training t(p);
  t.step();
  t.evaluate([&] { p.die(); });
}

void checkpoint_writer(Part& p) {
  Training t(p);
  t.step();
  p.group().rank0_only([&] {
    const auto state = t.net.state_dict();
    p.die();
  });
}

void checkpoint_waiter(Part& p) {
  Training t(p);
  t.step();
  p.die_in(milliseconds(100));
  p.group().rank0_only([&] { std::this_thread::sleep_for(milliseconds(300)); });
}

// -- what else ranks do together -----------------------------------------------------------------------------------

void barrier(Part& p) {
  p.die();
  p.group().barrier();
}

void all_to_all(Part& p) {
  Tensor in = zeros({p.trial().ranks, 50'000}), out = empty_like(in);
  p.communicator().all_to_all(out, in);
  p.die();
  p.communicator().all_to_all(out, in);
}

void send_and_recv(Part& p) {
  Tensor t = zeros({100'000});
  for (int round = 0; round < 2; ++round) {
    if (round == 1) p.die();
    if (p.rank() == p.trial().victim) p.communicator().send(t, p.partner());
    if (p.rank() == p.partner()) p.communicator().recv(t, p.trial().victim);
  }
}

void some_of_the_ranks(Part& p) {
  auto pair = p.group().new_group({std::min(p.trial().victim, p.partner()), std::max(p.trial().victim, p.partner())});
  Tensor t = zeros({1000});
  if (pair) pair->all_reduce(t);
  p.die();
  if (pair) pair->all_reduce(t);
}

void comm_hook(Part& p) {
  Training t(p, {.power_sgd = true});
  t.hook({.second = [&](int) { p.die(); }});
  t.step();
}

void uneven_batches(Part& p) {
  Training t(p);
  t.step();
  t.ddp.join([&] {
    for (int batch = 0; batch < (p.rank() == p.trial().victim ? 5 : 1); ++batch) {
      if (batch == 3) p.die();
      t.step();
    }
  });
}

void consolidation(Part& p) {
  Net net;
  DistributedDataParallel ddp(net);
  ZeroRedundancyOptimizer<nn::Adam> optimizer(net.parameters(), {}, {.process_group = &p.group()});
  ddp(images(4)).sum().backward();
  optimizer.step();
  p.die();
  optimizer.consolidate_state_dict();
}

void idle(Part& p) {
  Training t(p);
  t.step();
  p.die();
  std::this_thread::sleep_for(milliseconds(300));
}

void shutdown(Part& p) {
  Training t(p);
  t.step();
  p.die();
}

void everything(Part& p) {
  Training t(p);
  Tensor in = zeros({p.trial().ranks, 20'000}), out = empty_like(in);
  for (;;) {
    for (int i = 0; i < 3; ++i) t.step();
    t.evaluate([] {});
    p.group().rank0_only([&] { t.net.state_dict(); });
    p.communicator().all_to_all(out, in);
    auto more = p.group().new_communicator();
    more->barrier();
  }
}

}  // namespace

const std::vector<Phase>& phases() {
  static const std::vector<std::string> kConnecting{"connecting", "who is on which machine", "was not connected to ",
                                                    "the rendezvous", "[rendezvous] "};
  static const std::vector<std::string> kBuckets{kSamples, kBucket};
  static const std::vector<Phase> all{
      {.name = "rendezvous",
       .words = {"did not come by the deadline", "could not be reached"},
       .before = never_comes,
       .found_at_deadline = true,
       .possible = by_process},
      {.name = "joining",
       .words = {"died before all had joined", "did not come by the deadline", "could not be reached",
                 "who is on which machine", "waits for the others in vain"},
       .before = dies_while_joining,
       .found_at_deadline = true,
       .possible = [](auto& t) { return by_process(t) && t.manner != Manner::exception; }},
      {.name = "connecting", .words = kConnecting, .before = does_not_connect, .possible = by_process},
      {.name = "construction", .act = construction, .words = {"descriptions'", "connecting world/1"}},
      {.name = "broadcast of parameters", .act = broadcast, .words = {"broadcast of ", "'descriptions'"}},
      {.name = "first forward", .act = first_forward, .words = {kOrder}},
      {.name = "first backward", .act = first_backward, .words = {kOrder, kSamples, kBucket}},
      {.name = "within a bucket", .act = within_bucket, .words = kBuckets},
      {.name = "between buckets", .act = between_buckets, .words = kBuckets},
      {.name = "optimizer step", .act = optimizer_step, .words = {kSamples}},
      {.name = "synchronised batch norm", .act = sync_batch_norm, .words = {"'batch norm's statistics'"}},
      {.name = "evaluation", .act = evaluation, .words = {"'right answers'"}},
      {.name = "checkpoint, its writer",
       .act = checkpoint_writer,
       .words = {"'rank0_only'"},
       .possible = [](auto& t) { return t.victim == 0; }},
      {.name = "checkpoint, one who waits",
       .act = checkpoint_waiter,
       .words = {"'rank0_only'", "barrier 'next'"},
       .possible = [](auto& t) { return t.victim != 0; }},
      {.name = "barrier", .act = barrier, .words = {"barrier"}},
      {.name = "all_to_all", .act = all_to_all, .words = {"all_to_all of "}},
      {.name = "send and recv", .act = send_and_recv, .words = {"recv of ", "barrier 'next'"}},
      {.name = "a group of some ranks", .act = some_of_the_ranks, .words = {"all_reduce of ", "barrier 'next'"}},
      {.name = "comm hook", .act = comm_hook, .words = {kBucket}},
      {.name = "join", .act = uneven_batches, .words = {kSamples, "broadcast of "}},
      {.name = "consolidation of ZeRO", .act = consolidation, .words = {"gather of "}},
      {.name = "idle", .act = idle, .words = {"barrier 'next'"}},
      {.name = "shutdown", .act = shutdown, .words = {}, .harmless = true},
  };
  return all;
}

const Phase& all_of_it() {
  static const Phase everywhere{.name = "anything", .act = everything, .words = {}};
  return everywhere;
}

const Phase& phase_named(const std::string& name) {
  if (name == all_of_it().name) return all_of_it();
  for (auto& p : phases())
    if (p.name == name) return p;
  throw Error(message("there is no phase '", name, "'"));
}

}  // namespace tandem::deaths
