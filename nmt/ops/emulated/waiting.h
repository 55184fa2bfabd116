#pragma once

namespace babelring {

/// The number of processors of a rank whose computing is emulated; fractions where ranks share them.
struct RankProcessors {
  double computing = 0;  // kept busy by computing; 0: unknown, and the process's other threads slow nothing
  double spare = 0;      // idle while the rank computes alone
};

/// The part of `elapsed_ms` in which a real rank would have computed while the process's other threads used `others_ms`
/// of processor time. These use the spare processors first, then those of computing. At least half of `elapsed_ms`,
/// which a fair scheduler leaves to computing.
double computed_ms(double elapsed_ms, double others_ms, const RankProcessors& processors);

/// Waits for times that add up, in place of computing them. Times below 0.1 ms are collected, and a wait that takes too
/// long shortens the next ones, so the sum is right to 0.1 ms. While the process's other threads, such as those that
/// communicate, use processors of computing, a wait takes longer: until computed_ms() adds up to the time due.
class Waiting {
 public:
  explicit Waiting(const RankProcessors& processors = {}) : processors_(processors) {}
  /// Waits if at least 0.1 ms are due.
  void add(double ms);
  /// Waits for all that is due.
  void finish();

 private:
  RankProcessors processors_;
  double due_ms_ = 0;  // negative: waited too long
};

}  // namespace babelring
