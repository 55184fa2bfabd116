#include "nmt/comm/nccl/operation.h"

#include <fmt/format.h>

#include <algorithm>
#include <thread>
#include <utility>

#include "base/clock.h"

namespace babelring {
namespace {

std::string nccl_in_one_line(const char* text) {
  std::string line = text != nullptr ? text : "";
  while (!line.empty() && line.back() == '\n') line.pop_back();
  std::replace(line.begin(), line.end(), '\n', ' ');
  return line;
}

}  // namespace

std::string NcclGroup::describe(int result) const {
  const std::string detail = nccl_in_one_line(functions_.last_error(comm_));
  return detail.empty() ? nccl_in_one_line(functions_.error_string(result))
                        : fmt::format("{}: {}", nccl_in_one_line(functions_.error_string(result)), detail);
}

void NcclGroup::note(int result, const char* call) {
  if (result == nccl_success || result == nccl_in_progress || !failure_.empty()) return;
  failure_ = fmt::format("{}: {}", call, describe(result));
}

Result<NcclGroup::State> NcclGroup::state() {
  const std::unique_lock lock(mutex_, std::try_to_lock);
  if (!lock) return State::busy;
  int result = nccl_success;
  if (failure_.empty() && comm_ != nullptr) {
    note(functions_.async_error(comm_, &result), "ncclCommGetAsyncError");
    note(result, "NCCL");
  }
  if (!failure_.empty()) return Error{failure_};
  return result == nccl_in_progress ? State::busy : State::ready;
}

Result<NcclUniqueId> NcclGroup::make_id(const NcclFunctions& functions) {
  NcclUniqueId id{};
  const int result = functions.get_unique_id(&id);
  if (result == nccl_success) return id;
  return Error{fmt::format("ncclGetUniqueId: {}", nccl_in_one_line(functions.error_string(result)))};
}

void NcclGroup::join(const NcclUniqueId& id, int rank, int ranks) {
  NcclConfig config;
  const std::lock_guard lock(mutex_);
  rank_ = rank;
  note(functions_.init_rank(&comm_, ranks, id, rank, &config), "ncclCommInitRankConfig");
}

void NcclGroup::all_reduce(void* data, std::size_t count, NcclType type, void* stream) {
  const std::lock_guard lock(mutex_);
  if (!failure_.empty() || comm_ == nullptr) return;
  note(functions_.all_reduce(data, data, count, type, nccl_sum, comm_, stream), "ncclAllReduce");
}

void NcclGroup::reduce_scatter(void* data, std::size_t count, NcclType type, void* stream) {
  const std::lock_guard lock(mutex_);
  if (!failure_.empty() || comm_ == nullptr) return;
  const std::size_t bytes = count * (type == nccl_float32 ? 4 : 2);
  void* const own = static_cast<char*>(data) + static_cast<std::size_t>(rank_) * bytes;
  note(functions_.reduce_scatter(data, own, count, type, nccl_sum, comm_, stream), "ncclReduceScatter");
}

/// In one group, so that NCCL runs them together.
void NcclGroup::all_gather(const std::vector<NcclPart>& parts, void* stream) {
  const std::lock_guard lock(mutex_);
  if (!failure_.empty() || comm_ == nullptr) return;
  note(functions_.group_start(), "ncclGroupStart");
  for (const NcclPart& part : parts) {
    if (part.from == NcclPart::of_all_ranks) {
      const char* const own = part.data + static_cast<std::size_t>(rank_) * part.bytes;
      note(functions_.all_gather(own, part.data, part.bytes, nccl_int8, comm_, stream), "ncclAllGather");
    } else {
      note(functions_.broadcast(part.data, part.data, part.bytes, nccl_int8, part.from, comm_, stream),
           "ncclBroadcast");
    }
  }
  note(functions_.group_end(), "ncclGroupEnd");
}

void NcclGroup::abort() noexcept {
  const std::lock_guard lock(mutex_);
  if (failure_.empty()) failure_ = "aborted";
  if (comm_ != nullptr) functions_.abort(comm_);
  comm_ = nullptr;
}

void NcclGroup::close() {
  {
    const std::lock_guard lock(mutex_);
    if (!failure_.empty() || comm_ == nullptr) return;
    note(functions_.finalize(comm_), "ncclCommFinalize");
  }
  const Stopwatch watch;
  for (Result<State> now = state(); !now || *now != State::ready; now = state()) {
    if (!now || watch.elapsed_ms() > 5000) return abort();
    std::this_thread::sleep_for(std::chrono::milliseconds(1));
  }
  const std::lock_guard lock(mutex_);
  functions_.destroy(comm_);
  comm_ = nullptr;
  failure_ = "closed";
}

Tensor NcclDeviceSum::narrow(const Tensor& tensor) {
  const std::size_t bytes = tensor.bytes() / 2;
  if (narrow_.bytes() < bytes)
    narrow_ = stream_->allocate(bytes);  // the old buffer is freed once the device has used it
  return narrow_.view({tensor.shape.elements()}, DType::bf16);
}

std::unique_ptr<DeviceEvent> NcclDeviceSum::begin(NcclGroup& group, const NcclSum& sum) {
  stream_->after_backend();
  auto mark = stream_->mark();
  const bool narrowed = wire_ == GradientWire::bf16;
  const Tensor sent = narrowed ? narrow(sum.tensor) : sum.tensor;
  const NcclType type = narrowed ? nccl_bfloat16 : nccl_float32;
  if (narrowed) stream_->convert(sum.tensor, sent);
  if (sum.stripe > 0) {
    group.reduce_scatter(sent.data, static_cast<std::size_t>(sum.stripe), type, stream_->handle());
  } else {
    group.all_reduce(sent.data, static_cast<std::size_t>(sent.shape.elements()), type, stream_->handle());
  }
  return mark;
}

std::unique_ptr<DeviceEvent> NcclDeviceSum::end(const NcclSum& sum) {
  const std::int64_t count = sum.own.end - sum.own.begin;
  if (wire_ == GradientWire::bf16 && count > 0) {
    const Tensor flat(sum.tensor.data, {sum.tensor.shape.elements()}, DType::f32);
    stream_->convert(narrow(sum.tensor).row_slice(sum.own.begin, count), flat.row_slice(sum.own.begin, count));
  }
  return stream_->mark();
}

void NcclTicket::queued(std::unique_ptr<DeviceEvent> begin, std::unique_ptr<DeviceEvent> end) {
  const std::lock_guard lock(mutex_);
  begin_ = std::move(begin);
  end_ = std::move(end);
}

void NcclTicket::failed(const std::string& error) {
  const std::lock_guard lock(mutex_);
  status_ = Error{error};
}

bool NcclTicket::done(double& ms) const {
  const std::lock_guard lock(mutex_);
  if (end_ == nullptr || !end_->reached()) return false;
  ms = end_->ms_since(*begin_);
  return true;
}

Collective::Times NcclTicket::times(const DeviceClock& clock) const {
  const std::lock_guard lock(mutex_);
  return {.begun = clock.at(*begin_), .done = clock.at(*end_)};
}

Status NcclTicket::status() const {
  const std::lock_guard lock(mutex_);
  return status_;
}

Collective::Progress NcclOperation::advance() {
  // Only the oldest operation queries the driver, which the main thread needs too.
  if (queue_->completed.load() != number_) return Progress::none;
  double ms = 0;
  if (!ticket_->done(ms) || !status())
    return Progress::none;  // a mark is also reached after NCCL ended its kernels with an error
  queue_->busy_ns += static_cast<std::int64_t>(ms * 1e6);
  ++queue_->completed;
  return Progress::done;
}

std::string NcclOperation::name() const {
  return fmt::format("{} of {:.1f} MB by NCCL", kind_.name, static_cast<double>(kind_.bytes) / 1e6);
}

std::optional<Collective::Times> NcclOperation::measured_times() const {
  if (clock_ == nullptr) return std::nullopt;
  return ticket_->times(*clock_);
}

Status NcclOperation::status() const {
  if (Status queuing = ticket_->status(); !queuing) return queuing;
  const Result<NcclGroup::State> state = queue_->group.state();
  return state ? Status() : Error{state.error()};
}

}  // namespace babelring
