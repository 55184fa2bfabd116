#include "nmt/train/update/share_balancer.h"

#include <spdlog/spdlog.h>

#include <algorithm>
#include <cstring>

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
  compute_ms_ = {};
  measured_from_ = first + slow_updates;
  next_decision_ = first + first_interval;
}

void ShareBalancer::note(const StepRecord& record) {
  if (!measures_) return;
  if (record.update >= measured_from_) {
    const std::int64_t updates = next_decision_ - measured_from_ + 1;
    const auto part = (record.update - measured_from_) * std::ssize(compute_ms_) / updates;
    compute_ms_[static_cast<std::size_t>(part)] += record.forward_ms + record.backward_ms;
  }
  if (record.update >= next_decision_) decide(record.update);
}

void ShareBalancer::decide(std::int64_t update) {
  const std::vector<double> balanced = balanced_shares(current_, gather_times());
  compute_ms_ = {};
  measured_from_ = update + 1;
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

/// By rank, then by part of the updates.
std::vector<std::vector<double>> ShareBalancer::gather_times() const {
  std::vector<std::vector<double>> times;
  const std::string own(reinterpret_cast<const char*>(compute_ms_.data()), sizeof compute_ms_);
  for (const std::string& bytes : communicator_.all_gather(own)) {
    std::memcpy(times.emplace_back(compute_ms_.size()).data(), bytes.data(), bytes.size());
  }
  return times;
}

}  // namespace babelring
