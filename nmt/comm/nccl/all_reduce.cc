#include "nmt/comm/nccl/all_reduce.h"

#include <fmt/format.h>

#include <utility>

namespace babelring {

void NcclTicket::queued(std::unique_ptr<DeviceEvent> begin, std::unique_ptr<DeviceEvent> end) {
  const std::lock_guard lock(mutex_);
  begin_ = std::move(begin);
  end_ = std::move(end);
}

void NcclTicket::failed(const std::string& why) {
  const std::lock_guard lock(mutex_);
  failure_ = why;
}

bool NcclTicket::done(double& ms) const {
  const std::lock_guard lock(mutex_);
  if (end_ == nullptr || !end_->reached()) return false;
  ms = end_->ms_since(*begin_);
  return true;
}

std::string NcclTicket::failure() const {
  const std::lock_guard lock(mutex_);
  return failure_;
}

Collective::Progress NcclAllReduce::advance() {
  // Only the oldest all-reduce queries the driver, which the main thread needs too.
  if (queue_->completed.load() != number_) return Progress::none;
  double ms = 0;
  if (!ticket_->done(ms) || !trouble().empty())
    return Progress::none;  // a mark is also reached after NCCL ended its kernels with an error
  queue_->busy_ns += static_cast<std::int64_t>(ms * 1e6);
  ++queue_->completed;
  return Progress::done;
}

std::string NcclAllReduce::name() const {
  return fmt::format("all-reduce of {:.1f} MB by NCCL", static_cast<double>(payload_bytes_) / 1e6);
}

std::string NcclAllReduce::trouble() const {
  std::string why = ticket_->failure();
  if (why.empty() && queue_->group.state(why) != NcclGroup::State::failed) why.clear();
  return why;
}

}  // namespace babelring
