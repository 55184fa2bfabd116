#include "nmt/comm/nccl/operation.h"

#include <fmt/format.h>

#include <utility>

namespace babelring {

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
