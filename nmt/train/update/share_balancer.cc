#include "nmt/train/update/share_balancer.h"

#include <spdlog/spdlog.h>

#include <algorithm>
#include <utility>

namespace babelring {
namespace {

constexpr std::int64_t slow_updates = 5;  // the first ones of an attempt, which prepare memory and kernels

}  // namespace

ShareBalancer::ShareBalancer(const TrainConfig& config, Communicator& communicator)
    : communicator_(communicator),
      measures_(config.data.balance == Balance::measured && communicator.size() > 1),
      ahead_(config.data.prefetch + config.data.workers),
      current_(static_cast<std::size_t>(communicator.size()), 1.0 / communicator.size()) {}

void ShareBalancer::begin(std::int64_t first) {
  if (!measures_) return;
  shares_.emplace(communicator_.size());
  shares_->set(0, current_);
  compute_ms_ = 0;
  measured_from_ = first + slow_updates;
  next_decision_ = first + first_interval;
}

void ShareBalancer::note(const StepRecord& record) {
  if (!measures_) return;
  if (record.update >= measured_from_) compute_ms_ += record.forward_ms + record.backward_ms;
  if (record.update >= next_decision_) decide(record.update);
}

void ShareBalancer::decide(std::int64_t update) {
  std::vector<double> compute_ms(current_.size());
  compute_ms[static_cast<std::size_t>(communicator_.rank())] = std::exchange(compute_ms_, 0);
  communicator_.sum(compute_ms);
  measured_from_ = update + 1;
  const std::vector<double> balanced = balanced_shares(current_, compute_ms);
  if (balanced != current_) {
    measured_from_ = update + 1 + ahead_;
    shares_->set(measured_from_, balanced);
    if (communicator_.rank() == 0) {
      const auto [least, most] = std::ranges::minmax_element(balanced);
      spdlog::info(
          "data.balance: from update {} on, rank {} computes {:.1f} % of each update and rank {} {:.1f} %, by "
          "their measured speed",
          measured_from_, least - balanced.begin(), 100 * *least, most - balanced.begin(), 100 * *most);
    }
    current_ = balanced;
  }
  next_decision_ = measured_from_ + interval - 1;
}

}  // namespace babelring
