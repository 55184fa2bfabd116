#pragma once

namespace babelring {

/// The processors of a rank whose computing is emulated.
struct RankProcessors {
  double computing = 0;  // that computing keeps busy; 0: unknown, and the process's other threads slow nothing
  double spare = 0;      // that computing leaves to the process's other threads
};

/// How much of a computation `elapsed_ms` would have done while the process's other threads used `others_ms` of
/// processor time: they take what `spare` does not cover from `computing`, but a fair scheduler leaves it half.
double computed_ms(double elapsed_ms, double others_ms, const RankProcessors& processors);

/// Waits for times that add up, in place of computing them. Times below 0.1 ms are collected, and a wait that takes too
/// long shortens the next ones, so the sum is right to 0.1 ms. While other threads of the process use its processors,
/// as those that communicate, a wait takes longer, as in computed_ms().
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
