#include "nmt/comm/nccl/communicator.h"

#include <sched.h>

#include <algorithm>
#include <atomic>
#include <cstdlib>
#include <exception>
#include <functional>
#include <thread>
#include <utility>

#include "base/clock.h"
#include "nmt/comm/collective.h"
#include "nmt/comm/nccl/operation.h"
#include "nmt/comm/rank_results.h"

namespace babelring {
namespace {

/// Each GPU exchanges by itself, as a host with one rank.
class NcclCommunicator final : public Communicator, private HostExchange, private TransferChannel, private CommTracer {
 public:
  /// control.tracker() must not be null.
  NcclCommunicator(Communicator& control, std::shared_ptr<NcclQueue> queue, NcclDeviceSum sum, std::string description)
      : Communicator(control.rank(), control.hosts()),
        control_(control),
        tracker_(*control.tracker()),
        queue_(std::move(queue)),
        sum_(std::move(sum)),
        description_(std::move(description)),
        exceptions_at_start_(std::uncaught_exceptions()) {
    set_abilities({.host_exchange = this,
                   .transfers = this,
                   .tracer = control.tracer() != nullptr ? this : nullptr,
                   .device_memory = true});
  }
  /// During an exception it does not wait for the other ranks.
  ~NcclCommunicator() override {
    if (std::uncaught_exceptions() == exceptions_at_start_) {
      queue_->group.close();
    } else {
      queue_->group.abort();
    }
  }

  Buffer allocate(std::size_t bytes) override { return sum_.stream().allocate(bytes); }
  void all_reduce_start(Tensor tensor) override;
  void all_reduce_finish() override;
  void forget_errors() override {}
  void sum(std::vector<double>& values) override { control_.sum(values); }
  std::vector<std::string> all_gather(const std::string& text) override { return control_.all_gather(text); }
  void or_bits(std::vector<std::uint64_t>& words) override { control_.or_bits(words); }
  void broadcast(void* data, std::size_t bytes, int root) override { control_.broadcast(data, bytes, root); }
  void broadcast_to_hosts(void* data, std::size_t bytes) override { control_.broadcast_to_hosts(data, bytes); }
  void barrier() override { control_.barrier(); }
  void fail_fast(std::chrono::milliseconds silence) override { control_.fail_fast(silence); }
  CommTotals totals() const override {
    return {.bytes_sent = bytes_sent_.load() + control_.totals().bytes_sent,
            .busy_ms = static_cast<double>(queue_->busy_ns.load()) * 1e-6};
  }
  std::string description() const override { return description_; }

 private:
  int host_count() const override { return size(); }
  int position() const override { return rank(); }
  int stripe_of(int position) const override { return position; }
  void reduce_scatter_start(Tensor tensor, std::int64_t stripe) override;
  Buffer allocate_for_gathers(std::size_t bytes, const std::vector<ElementRange>&) override { return allocate(bytes); }
  std::int64_t all_gather_start(Tensor tensor, const PartsByPosition& parts) override;
  void finish(std::int64_t) override { all_reduce_finish(); }
  void start(const std::vector<Transfer>& transfers) override;
  void record_spans(bool on) override;
  std::vector<CommSpan> take_spans() override { return control_.tracer()->take_spans(); }
  std::vector<RoundTrip> round_trips(int count) override { return control_.tracer()->round_trips(count); }

  void start_sum(const NcclSum& sum, const char* name);
  /// The two steps in which an operation is queued on the stream. NCCL may be busy between them. Both return a mark.
  struct Steps {
    std::function<std::unique_ptr<DeviceEvent>()> begin, end;
  };
  void start_operation(NcclOperation::Kind kind, const Steps& steps);
  void queue(const Steps& steps, NcclTicket& ticket);
  void wait_until_queued();

  Communicator& control_;
  CollectiveTracker& tracker_;
  std::shared_ptr<NcclQueue> queue_;  // with the communication thread, which may have to outlive this object
  NcclDeviceSum sum_;
  std::string description_;
  int exceptions_at_start_;
  std::shared_ptr<const DeviceClock> clock_;  // null unless spans are recorded
  std::int64_t started_ = 0;
  bool transfers_in_flight_ = false;
  std::atomic<std::int64_t> bytes_sent_{0};
};

void require_f32(const char* call, const Tensor& tensor) {
  if (tensor.dtype == DType::f32 && tensor.contiguous()) return;
  fail("{}: tensor is {} {}, expected contiguous f32", call, name_of(tensor.dtype), tensor.shape.text());
}

void NcclCommunicator::all_reduce_start(Tensor tensor) {
  require_f32("all_reduce_start", tensor);
  start_sum(NcclSum::whole(tensor), "all-reduce");
}

/// NCCL scatters equal stripes only, so a tensor of less than a stripe for each rank is reduced as a whole.
void NcclCommunicator::reduce_scatter_start(Tensor tensor, std::int64_t stripe) {
  require_f32("reduce_scatter_start", tensor);
  const std::int64_t count = tensor.shape.elements();
  if (stripe < 1 || count > stripe * size()) {
    fail("reduce_scatter_start: {} elements for {} ranks in stripes of {}", count, size(), stripe);
  }
  const ElementRange own{.begin = std::min(count, rank() * stripe), .end = std::min(count, (rank() + 1) * stripe)};
  start_sum({.tensor = tensor, .stripe = count == stripe * size() ? stripe : 0, .own = own}, "reduce-scatter");
}

/// Through host memory.
void NcclCommunicator::start(const std::vector<Transfer>& transfers) {
  control_.transfers().start(transfers);
  transfers_in_flight_ = true;
}

/// Orders the backend's later work behind all operations. The host waits for transfers only.
void NcclCommunicator::all_reduce_finish() {
  sum_.stream().before_backend();
  if (std::exchange(transfers_in_flight_, false)) control_.all_reduce_finish();
}

void NcclCommunicator::start_sum(const NcclSum& sum, const char* name) {
  const std::int64_t count = sum.tensor.shape.elements();
  if (count == 0) return;
  bytes_sent_ += wire_bytes(sum_.wire(), count) * (sum.stripe > 0 ? 1 : 2) * (size() - 1) / size();
  const auto bytes = static_cast<std::int64_t>(sum.tensor.bytes());
  start_operation({.name = name, .bytes = bytes, .payload_bytes = bytes},
                  {.begin = [&] { return sum_.begin(queue_->group, sum); }, .end = [&] { return sum_.end(sum); }});
}

/// True if the ranges with this index lie one behind the other in the order of ranks, all of one size.
bool form_a_row(const PartsByPosition& parts, std::size_t index) {
  const auto missing = [index](const std::vector<ElementRange>& ranges) { return index >= ranges.size(); };
  if (std::any_of(parts.begin(), parts.end(), missing)) return false;
  const std::int64_t count = parts[0][index].end - parts[0][index].begin;
  for (std::size_t rank = 1; rank < parts.size(); ++rank) {
    const std::int64_t begin = parts[rank - 1][index].end;
    if (parts[rank][index] != ElementRange{.begin = begin, .end = begin + count}) return false;
  }
  return true;
}

std::vector<NcclPart> nccl_parts(const Tensor& tensor, const PartsByPosition& parts) {
  const std::size_t width = size_of(tensor.dtype);
  std::vector<NcclPart> all;
  const auto add = [&](const ElementRange& range, int from) {
    all.push_back({.data = tensor.as<char>() + static_cast<std::size_t>(range.begin) * width,
                   .bytes = static_cast<std::size_t>(range.end - range.begin) * width,
                   .from = from});
  };
  std::size_t rows = 0;
  for (; form_a_row(parts, rows); ++rows) add(parts[0][rows], NcclPart::of_all_ranks);
  for (std::size_t rank = 0; rank < parts.size(); ++rank) {
    for (std::size_t i = rows; i < parts[rank].size(); ++i) add(parts[rank][i], static_cast<int>(rank));
  }
  return all;
}

std::int64_t NcclCommunicator::all_gather_start(Tensor tensor, const PartsByPosition& parts) {
  if (!tensor.contiguous() || std::ssize(parts) != size()) {
    fail("all_gather_start: tensor {} with parts for {} of {} ranks, expected a contiguous one", tensor.shape.text(),
         parts.size(), size());
  }
  const std::vector<NcclPart> pieces = nccl_parts(tensor, parts);
  std::int64_t bytes = 0;
  for (const NcclPart& piece : pieces) {
    bytes += static_cast<std::int64_t>(piece.bytes) * (piece.from == NcclPart::of_all_ranks ? size() : 1);
  }
  if (bytes == 0) return started_;
  bytes_sent_ += bytes * (size() - 1) / size();
  DeviceStream& stream = sum_.stream();
  start_operation({.name = "all-gather", .bytes = bytes}, {.begin =
                                                               [&] {
                                                                 stream.after_backend();
                                                                 auto mark = stream.mark();
                                                                 queue_->group.all_gather(pieces, stream.handle());
                                                                 return mark;
                                                               },
                                                           .end = [&] { return stream.mark(); }});
  return started_;
}

/// The communication thread gets the operation first, so that it watches while this thread connects, which may be
/// slow.
void NcclCommunicator::start_operation(NcclOperation::Kind kind, const Steps& steps) {
  const auto ticket = std::make_shared<NcclTicket>();
  tracker_.follow(std::make_unique<NcclOperation>(queue_, ticket, started_, std::move(kind), clock_));
  ++started_;
  try {
    queue(steps, *ticket);
  } catch (const Failure& failure) {
    ticket->failed(failure.what());
    control_.all_reduce_finish();  // throws this failure, naming the peer that caused it, if one did
    throw;
  }
}

void NcclCommunicator::queue(const Steps& steps, NcclTicket& ticket) {
  auto begin = steps.begin();
  wait_until_queued();
  auto end = steps.end();
  ticket.queued(std::move(begin), std::move(end));
}

/// Returns at once, except at the first use of a connection.
void NcclCommunicator::wait_until_queued() {
  const Stopwatch watch;
  while (queue_->group.state().value() == NcclGroup::State::busy) {
    if (watch.elapsed_ms() < 1) {
      sched_yield();
    } else {
      std::this_thread::sleep_for(std::chrono::microseconds(100));
    }
  }
}

/// Waits for the operations in flight, so that the device's clock is read without delay.
void NcclCommunicator::record_spans(bool on) {
  clock_ = on ? std::make_shared<const DeviceClock>(sum_.stream().mark()) : nullptr;
  control_.tracer()->record_spans(on);
}

/// Polls each rank's state until all are ready or one has failed. All ranks return the same Status.
Status until_all_ready(Communicator& control, std::chrono::milliseconds deadline,
                       const std::function<Result<NcclGroup::State>()>& state) {
  const Stopwatch watch;
  for (auto nap = std::chrono::milliseconds(1);; nap = std::min(2 * nap, std::chrono::milliseconds(20))) {
    Result<NcclGroup::State> own = state();
    if (own && *own == NcclGroup::State::busy && watch.elapsed_ms() > static_cast<double>(deadline.count())) {
      own = Error{
          fmt::format("NCCL has not met the other ranks within {:g} s", static_cast<double>(deadline.count()) / 1e3)};
    }
    const auto all =
        gather_results(control, own ? Result<json::value>(*own == NcclGroup::State::ready) : Error{own.error()});
    if (Status status = first_error(control, all); !status) return status;
    if (std::all_of(all.begin(), all.end(), [](const auto& ready) { return ready->as_bool(); })) return {};
    std::this_thread::sleep_for(nap);
  }
}

/// "NCCL 2.28.9". Sets NCCL_ALGO for `ring`.
Result<json::value> prepare_nccl(const Result<NcclLibrary>& library, bool ring) {
  if (!library) return Error{library.error()};
  const char* algorithm = std::getenv("NCCL_ALGO");
  if (ring && algorithm != nullptr && std::string(algorithm) != "Ring" && std::string(algorithm) != "ring") {
    return Error{fmt::format("NCCL_ALGO is {}, all_reduce nccl_ring needs Ring", algorithm)};
  }
  if (ring) ::setenv("NCCL_ALGO", "Ring", 1);
  return json::value("NCCL " + library->version_text());
}

/// Checks that every rank can use NCCL, of one version. All ranks return the same Status.
Status check_ranks(Communicator& control, const Result<json::value>& own) {
  const auto versions = gather_results(control, own);
  if (Status status = first_error(control, versions); !status) return status;
  for (std::size_t rank = 1; rank < versions.size(); ++rank) {
    if (*versions[rank] == *versions[0]) continue;
    return Error{fmt::format("rank 0 on {} has {}, rank {} on {} {}", control.hosts()[0],
                             std::string_view(versions[0]->as_string()), rank, control.hosts()[rank],
                             std::string_view(versions[rank]->as_string()))};
  }
  return {};
}

/// Sums options.trial. All ranks return the same Status.
Status try_nccl(Communicator& control, NcclGroup& group, NcclDeviceSum& sum, const NcclOptions& options) {
  Status queued;
  const auto attempt = [&](const std::function<void()>& queue) {
    try {
      queue();
    } catch (const Failure& failure) {
      queued = Error{failure.what()};
    }
  };
  const auto group_state = [&]() -> Result<NcclGroup::State> {
    if (!queued) return Error{queued.error()};
    return group.state();
  };
  const NcclSum trial = NcclSum::whole(options.trial);
  attempt([&] { sum.begin(group, trial); });
  if (Status status = until_all_ready(control, options.deadline, group_state); !status) return status;
  std::unique_ptr<DeviceEvent> end;
  attempt([&] { end = sum.end(trial); });
  return until_all_ready(control, options.deadline, [&]() -> Result<NcclGroup::State> {
    Result<NcclGroup::State> state = group_state();
    if (!state || *state == NcclGroup::State::busy) return state;
    bool reached = false;
    attempt([&] { reached = end->reached(); });
    if (!queued) return Error{queued.error()};
    return reached ? NcclGroup::State::ready : NcclGroup::State::busy;
  });
}

/// Joins the ranks' group. All ranks return the same Status.
Status join_nccl(const NcclFunctions& functions, Communicator& control, NcclGroup& group,
                 std::chrono::milliseconds deadline) {
  Result<NcclUniqueId> id = control.rank() == 0 ? NcclGroup::make_id(functions) : NcclUniqueId();
  const auto made = gather_results(control, id ? Result<json::value>(nullptr) : Error{id.error()});
  if (!made[0]) return Error{made[0].error()};
  control.broadcast(id->bytes, sizeof id->bytes, 0);
  group.join(*id, control.rank(), control.size());
  return until_all_ready(control, deadline, [&] { return group.state(); });
}

/// The line for the log.
std::string describe_nccl(const NcclLibrary& library, int ranks, const NcclOptions& options) {
  const char* algorithm = std::getenv("NCCL_ALGO");
  return fmt::format("NCCL {} over {} ranks, {} on the wire, buckets of {:.1f} MB; NCCL_ALGO is {}",
                     library.version_text(), ranks, name_of(options.wire),
                     static_cast<double>(options.trial.bytes()) / 1e6, algorithm != nullptr ? algorithm : "not set");
}

}  // namespace

Result<std::unique_ptr<Communicator>> open_nccl(const Result<NcclLibrary>& library, Communicator& control,
                                                std::unique_ptr<DeviceStream> stream, const NcclOptions& options) {
  if (control.tracker() == nullptr) fail("NCCL: its all-reduces cannot be tracked by: {}", control.description());
  Result<json::value> own = prepare_nccl(library, options.ring);
  if (own && stream == nullptr) own = Error{"the gradients are in host memory"};
  if (Status status = check_ranks(control, own); !status) return Error{status.error()};
  const auto queue = std::make_shared<NcclQueue>(library->functions);
  NcclDeviceSum sum(std::move(stream), options.wire);
  sum.stream().handle();  // selects the device to join with
  Status status = join_nccl(library->functions, control, queue->group, options.deadline);
  if (status) status = try_nccl(control, queue->group, sum, options);
  if (!status) {
    queue->group.abort();
    return Error{status.error()};
  }
  return std::unique_ptr<Communicator>(std::make_unique<NcclCommunicator>(
      control, queue, std::move(sum), describe_nccl(*library, control.size(), options)));
}

}  // namespace babelring
