#pragma once

#include <cstdint>
#include <deque>

namespace babelring {

/// A rate over the last few intervals: tokens per second of the last N updates.
class RateMeter {
 public:
  /// `window` intervals are remembered, at least 1.
  explicit RateMeter(std::size_t window = 20) : window_(window == 0 ? 1 : window) {}

  void add(std::int64_t amount, double milliseconds) {
    intervals_.push_back({amount, milliseconds});
    amount_ += amount;
    milliseconds_ += milliseconds;
    if (intervals_.size() <= window_) return;
    amount_ -= intervals_.front().amount;
    milliseconds_ -= intervals_.front().milliseconds;
    intervals_.pop_front();
  }

  /// Amount per second; 0 before anything was added.
  double per_second() const { return milliseconds_ > 0 ? static_cast<double>(amount_) * 1000 / milliseconds_ : 0; }
  /// Seconds until `remaining` more intervals have passed at the mean pace of those remembered.
  double seconds_for(std::int64_t remaining) const {
    if (intervals_.empty()) return 0;
    return milliseconds_ / 1000 / static_cast<double>(intervals_.size()) * static_cast<double>(remaining);
  }

 private:
  struct Interval {
    std::int64_t amount;
    double milliseconds;
  };
  std::size_t window_;
  std::deque<Interval> intervals_;
  std::int64_t amount_ = 0;
  double milliseconds_ = 0;
};

/// A mean weighted by counts: loss per target token over several batches.
class MeanMeter {
 public:
  void add(double sum, double weight) {
    sum_ += sum;
    weight_ += weight;
  }
  /// 0 before anything was added.
  double mean() const { return weight_ > 0 ? sum_ / weight_ : 0; }
  double weight() const { return weight_; }
  void reset() { sum_ = weight_ = 0; }

 private:
  double sum_ = 0, weight_ = 0;
};

}  // namespace babelring
