#include "nmt/train/update/load_balancer.h"

#include <spdlog/spdlog.h>

#include <algorithm>
#include <cstring>

#include "nmt/data/assignment.h"
#include "nmt/train/setup/task_data.h"

namespace babelring {
namespace {

constexpr std::int64_t slow_updates = 5;  // the first ones of an attempt, which prepare memory and kernels

}  // namespace

LoadBalancer::LoadBalancer(const TrainConfig& config, Communicator& communicator)
    : communicator_(communicator),
      measures_(config.data.balance == Balance::measured && communicator.size() > 1),
      ahead_(config.data.prefetch + config.data.workers),
      ranks_(ranks_by_part(config, communicator)),
      units_(config.training.by_units() ? config.training.units : 0),
      equal_(static_cast<std::size_t>(communicator.size()), 1.0 / communicator.size()),
      current_(equal_) {}

void LoadBalancer::begin(std::int64_t first) {
  if (!measures_) return;
  assignment_.emplace(communicator_.size());
  assignment_->set(0, current_);
  compute_ms_ = {};
  step_ms_ = tokens_ = 0;
  measured_from_ = first + slow_updates;
  next_decision_ = first + first_interval;
}

void LoadBalancer::note(const StepRecord& record) {
  if (!measures_) return;
  if (record.update >= measured_from_) {
    const std::int64_t updates = next_decision_ - measured_from_ + 1;
    const auto part = (record.update - measured_from_) * std::ssize(compute_ms_) / updates;
    compute_ms_[static_cast<std::size_t>(part)] += record.times.forward + record.times.backward;
    step_ms_ += record.times.step;
    tokens_ += static_cast<double>(record.update_target_tokens);
  }
  if (record.update >= next_decision_) decide(record.update);
}

void LoadBalancer::decide(std::int64_t update) {
  const std::vector<double> fractions = balanced();
  compute_ms_ = {};
  step_ms_ = tokens_ = 0;
  measured_from_ = update + 1;
  if (fractions != current_) {
    measured_from_ = update + 1 + ahead_;
    assignment_->set(measured_from_, fractions);
    if (communicator_.rank() == 0) log_fractions(fractions);
    current_ = fractions;
  }
  next_decision_ = measured_from_ + (waits_ ? retry_interval : interval) - 1;
}

void LoadBalancer::log_fractions(const std::vector<double>& fractions) const {
  if (waits_) {
    spdlog::info(
        "data.balance: updates with moved units take longer than updates with equal parts, so each rank computes an "
        "equal part from update {} on; next attempt after {} updates",
        measured_from_, retry_interval);
    return;
  }
  const auto [least, most] = std::ranges::minmax_element(fractions);
  const auto rank = [&](auto fraction) { return ranks_[static_cast<std::size_t>(fraction - fractions.begin())]; };
  spdlog::info(
      "data.balance: from update {} on, rank {} computes {:.1f} % of each update and rank {} {:.1f} %, by their "
      "measured speed",
      measured_from_, rank(least), 100 * *least, rank(most), 100 * *most);
}

/// Decided by rank 0: logarithms may be rounded differently on other processors.
std::vector<double> LoadBalancer::balanced() {
  std::vector<double> fractions = balanced_fractions(current_, gather_times());
  if (units_ > 0) {
    const std::vector<int> counts = unit_counts(fractions, units_);
    for (std::size_t i = 0; i < fractions.size(); ++i) fractions[i] = static_cast<double>(counts[i]) / units_;
  }
  waits_ = units_ > 0 && slower_than_equal();
  if (waits_) fractions = equal_;
  fractions.push_back(waits_ ? 1 : 0);
  communicator_.broadcast(fractions.data(), fractions.size() * sizeof(double), 0);
  waits_ = fractions.back() != 0;
  fractions.pop_back();
  return fractions;
}

/// Returns whether updates with moved units took longer than earlier updates with equal fractions. With equal
/// fractions, stores the pace and returns false.
bool LoadBalancer::slower_than_equal() {
  const double pace = tokens_ > 0 ? step_ms_ / tokens_ : 0;
  if (current_ != equal_) return equal_pace_ > 0 && pace > equal_pace_;
  equal_pace_ = pace;
  return false;
}

/// By fraction, then by part of the updates.
std::vector<std::vector<double>> LoadBalancer::gather_times() const {
  const std::string own(reinterpret_cast<const char*>(compute_ms_.data()), sizeof compute_ms_);
  const std::vector<std::string> by_rank = communicator_.all_gather(own);
  std::vector<std::vector<double>> times;
  for (const int rank : ranks_) {
    const std::string& bytes = by_rank[static_cast<std::size_t>(rank)];
    std::memcpy(times.emplace_back(compute_ms_.size()).data(), bytes.data(), bytes.size());
  }
  return times;
}

}  // namespace babelring
