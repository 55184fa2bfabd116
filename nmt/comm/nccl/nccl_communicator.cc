#include "nmt/comm/nccl/nccl_communicator.h"

#include <sched.h>

#include <algorithm>
#include <atomic>
#include <cstdlib>
#include <exception>
#include <functional>
#include <thread>

#include "base/clock.h"
#include "nmt/comm/nccl/all_reduce.h"
#include "nmt/comm/nccl/device_sum.h"
#include "nmt/comm/nccl/log.h"

namespace babelring {
namespace {

class NcclCommunicator final : public Communicator {
 public:
  NcclCommunicator(Communicator& control, std::shared_ptr<NcclQueue> queue, NcclDeviceSum sum,
                   std::unique_ptr<NcclLog> log, std::string description)
      : control_(control),
        queue_(std::move(queue)),
        sum_(std::move(sum)),
        log_(std::move(log)),
        description_(std::move(description)),
        exceptions_at_start_(std::uncaught_exceptions()) {}
  /// By an exception on its way up, it waits for nobody.
  ~NcclCommunicator() override {
    if (std::uncaught_exceptions() == exceptions_at_start_) {
      queue_->group.close();
    } else {
      queue_->group.abort();
    }
  }

  int rank() const override { return control_.rank(); }
  int size() const override { return control_.size(); }
  const std::vector<std::string>& hosts() const override { return control_.hosts(); }
  int local_rank() const override { return control_.local_rank(); }
  int local_size() const override { return control_.local_size(); }
  bool device_memory() const override { return true; }
  Buffer allocate(std::size_t bytes) override { return sum_.stream().allocate(bytes); }
  void all_reduce_start(Tensor tensor) override;
  void all_reduce_finish() override;
  void follow(std::unique_ptr<Collective> collective) override { control_.follow(std::move(collective)); }
  void sum(std::vector<double>& values) override { control_.sum(values); }
  std::vector<std::string> all_gather(const std::string& text) override { return control_.all_gather(text); }
  void broadcast(void* data, std::size_t bytes, int root) override { control_.broadcast(data, bytes, root); }
  void barrier() override { control_.barrier(); }
  void fail_fast(std::chrono::milliseconds silence) override { control_.fail_fast(silence); }
  CommTotals totals() const override {
    return {.bytes_sent = bytes_sent_.load(), .busy_ms = static_cast<double>(queue_->busy_ns.load()) * 1e-6};
  }
  std::string description() const override { return description_; }

 private:
  void queue(Tensor tensor, NcclTicket& ticket);
  void wait_until_queued();

  Communicator& control_;
  std::shared_ptr<NcclQueue> queue_;  // with the communication thread, which may have to outlive this object
  NcclDeviceSum sum_;
  std::unique_ptr<NcclLog> log_;
  std::string description_;
  int exceptions_at_start_;
  std::int64_t started_ = 0;
  std::atomic<std::int64_t> bytes_sent_{0};
};

/// Handed to the communication thread first, so that it already watches while this one connects, which may take long.
void NcclCommunicator::all_reduce_start(Tensor tensor) {
  if (tensor.dtype != DType::f32 || !tensor.contiguous()) {
    fail("all_reduce_start: tensor is {} {}, expected contiguous f32", name_of(tensor.dtype), tensor.shape.text());
  }
  const std::int64_t count = tensor.shape.elements();
  if (count == 0) return;
  const auto ticket = std::make_shared<NcclTicket>();
  control_.follow(std::make_unique<NcclAllReduce>(queue_, ticket, started_, static_cast<std::int64_t>(tensor.bytes())));
  ++started_;
  bytes_sent_ += count * (sum_.wire() == GradientWire::bf16 ? 2 : 4) * 2 * (size() - 1) / size();
  try {
    queue(tensor, *ticket);
  } catch (const Failure& failure) {
    ticket->failed(failure.what());
    control_.all_reduce_finish();  // throws this failure, naming the peer that caused it, if one did
    throw;
  }
}

void NcclCommunicator::queue(Tensor tensor, NcclTicket& ticket) {
  auto begin = sum_.begin(queue_->group, tensor);
  wait_until_queued();
  auto end = sum_.end(tensor);
  ticket.queued(std::move(begin), std::move(end));
}

/// Returns at once, except at the first use of a connection.
void NcclCommunicator::wait_until_queued() {
  const Stopwatch watch;
  std::string why;
  for (auto state = queue_->group.state(why); state != NcclGroup::State::ready; state = queue_->group.state(why)) {
    if (state == NcclGroup::State::failed) fail("{}", why);
    if (watch.elapsed_ms() < 1) {
      sched_yield();
    } else {
      std::this_thread::sleep_for(std::chrono::microseconds(100));
    }
  }
}

void NcclCommunicator::all_reduce_finish() {
  sum_.stream().before_backend();
  log_->clear();
}

/// The first reason against NCCL in what the ranks say: "-why", or "+" and a text that must be the same on all.
std::string first_objection(const Communicator& control, const std::vector<std::string>& said) {
  const auto place = [&](std::size_t rank) { return fmt::format("rank {} on {}", rank, control.hosts()[rank]); };
  for (std::size_t rank = 0; rank < said.size(); ++rank) {
    if (said[rank][0] == '-') return fmt::format("{}: {}", place(rank), said[rank].substr(1));
  }
  for (std::size_t rank = 1; rank < said.size(); ++rank) {
    if (said[rank] == said[0]) continue;
    return fmt::format("{} has {}, {} {}", place(0), said[0].substr(1), place(rank), said[rank].substr(1));
  }
  return "";
}

/// Asks each rank's `state` until all are ready or one has failed: then why, alike on all ranks.
std::string until_all_ready(Communicator& control, std::chrono::milliseconds deadline,
                            const std::function<NcclGroup::State(std::string&)>& state) {
  const Stopwatch watch;
  for (auto nap = std::chrono::milliseconds(1);; nap = std::min(2 * nap, std::chrono::milliseconds(20))) {
    std::string why;
    NcclGroup::State own = state(why);
    if (own == NcclGroup::State::busy && watch.elapsed_ms() > static_cast<double>(deadline.count())) {
      own = NcclGroup::State::failed;
      why = fmt::format("NCCL has not met the other ranks within {:g} s", static_cast<double>(deadline.count()) / 1e3);
    }
    const std::string word = own == NcclGroup::State::failed ? "-" + why : own == NcclGroup::State::ready ? "+" : ".";
    const std::vector<std::string> all = control.all_gather(word);
    if (const auto busy = std::find(all.begin(), all.end(), ".");
        busy == all.end() ||
        std::any_of(all.begin(), all.end(), [](const std::string& one) { return one[0] == '-'; })) {
      return first_objection(control, all);
    }
    std::this_thread::sleep_for(nap);
  }
}

/// Sets the environment as wished. Returns why this rank cannot use NCCL; empty: it can.
std::string prepare_nccl(const NcclLibrary& library, bool ring) {
  if (library.version == 0) return library.why;
  if (!ring) return "";
  const char* algorithm = std::getenv("NCCL_ALGO");
  if (algorithm != nullptr && std::string(algorithm) != "Ring" && std::string(algorithm) != "ring") {
    return fmt::format("NCCL_ALGO is {}, all_reduce nccl_ring wants Ring", algorithm);
  }
  ::setenv("NCCL_ALGO", "Ring", 1);
  return "";
}

/// Sums options.trial. Returns why that failed, the same on all ranks; empty: it did not.
std::string try_nccl(Communicator& control, NcclGroup& group, NcclDeviceSum& sum, const NcclOptions& options) {
  std::string why;
  const auto once = [&](const std::function<void()>& queue) {
    try {
      queue();
    } catch (const Failure& failure) {
      why = failure.what();
    }
  };
  const auto group_state = [&](std::string& reason) {
    reason = why;
    return why.empty() ? group.state(reason) : NcclGroup::State::failed;
  };
  once([&] { sum.begin(group, options.trial); });
  if (auto objection = until_all_ready(control, options.deadline, group_state); !objection.empty()) {
    return objection;
  }
  std::unique_ptr<DeviceEvent> end;
  once([&] { end = sum.end(options.trial); });
  return until_all_ready(control, options.deadline, [&](std::string& reason) {
    auto state = group_state(reason);
    once([&] {
      if (state == NcclGroup::State::ready && !end->reached()) state = NcclGroup::State::busy;
    });
    return state;
  });
}

/// The line for the log.
std::string describe_nccl(const NcclLibrary& library, Communicator& control, const NcclLog& log,
                          const NcclOptions& options) {
  std::string extracts;
  for (const std::string& one : control.all_gather(nccl_log_extract(log.read()))) extracts += one;
  const std::string choice = !extracts.empty() ? parse_nccl_log(extracts).text()
                             : log.is_users()  ? "what it chose is in its own log (NCCL_DEBUG is set)"
                                               : "which does not say what it chose";
  const char* algorithm = std::getenv("NCCL_ALGO");
  return fmt::format("NCCL {} over {} ranks, {} on the wire, {} for buckets of {:.1f} MB; NCCL_ALGO is {}",
                     library.version_text(), control.size(), options.wire == GradientWire::bf16 ? "bf16" : "f32",
                     choice, static_cast<double>(options.trial.bytes()) / 1e6,
                     algorithm != nullptr ? algorithm : "not set");
}

}  // namespace

OpenedNccl open_nccl(const NcclLibrary& library, Communicator& control, std::unique_ptr<DeviceStream> stream,
                     const NcclOptions& options) {
  std::string why = prepare_nccl(library, options.ring);
  if (why.empty() && stream == nullptr) why = "the gradients are in the host's memory";
  why = first_objection(control, control.all_gather(why.empty() ? "+NCCL " + library.version_text() : "-" + why));
  if (!why.empty()) return {.communicator = nullptr, .why = why};

  auto log = std::make_unique<NcclLog>();
  const std::string id = control.rank() == 0 ? NcclGroup::make_id(library.functions, why) : "";
  const std::string said = control.all_gather(why.empty() ? "+" + id : "-" + why)[0];
  if (said[0] == '-') return {.communicator = nullptr, .why = said.substr(1)};

  const auto queue = std::make_shared<NcclQueue>(library.functions);
  NcclDeviceSum sum(std::move(stream), options.wire);
  sum.stream().handle();  // its device is the one to join with
  queue->group.join(said.substr(1), control.rank(), control.size());
  why = until_all_ready(control, options.deadline, [&](std::string& reason) { return queue->group.state(reason); });
  if (why.empty()) why = try_nccl(control, queue->group, sum, options);
  if (!why.empty()) {
    queue->group.abort();
    return {.communicator = nullptr, .why = why};
  }
  const std::string description = describe_nccl(library, control, *log, options);
  log->clear();
  return {std::make_unique<NcclCommunicator>(control, queue, std::move(sum), std::move(log), description), ""};
}

}  // namespace babelring
