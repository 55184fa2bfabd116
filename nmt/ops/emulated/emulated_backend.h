#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "nmt/ops/backend.h"

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

/// The phase of a rank's record to which `op` belongs if it runs within `range`, the outermost range of an update or
/// the one within its micro-batch: "forward", "backward" or "optimizer". Of the output's loss, the product that makes
/// the logits is forward and the rest backward, as in step records.
std::string_view recorded_phase(std::string_view range, std::string_view op);

/// The time of an op in a phase: calls · ms_per_call + GFLOP · ms_per_gflop + GB · ms_per_gb.
struct EmulatedOp {
  std::string phase, op;
  double ms_per_call = 0, ms_per_gflop = 0, ms_per_gb = 0;
};

struct EmulatedTimes {
  std::vector<EmulatedOp> ops;
  std::vector<double> factors;     // each update draws one by which its times are multiplied; empty: 1
  std::uint64_t seed = 0;          // of the draws
  RankProcessors processors = {};  // unknown: other threads slow no op
};

/// A backend that computes nothing: an op takes the time of its entry in `times`, in sleep, to 0.1 ms, and longer
/// while other threads take its processors (see Waiting). An op without an entry, such as the sum of the gradients of
/// ranks that share memory, is computed. All tensors are zeros in host memory, which takes physical memory only where
/// somebody writes; uploads write nothing. `lock` makes allocate() give physical memory, locked in place; it throws
/// UsageFailure if the limit on locked memory (ulimit -l) is too low.
std::unique_ptr<Backend> make_emulated_backend(const EmulatedTimes& times, bool lock);

/// Gives a range of memory physical pages and locks them in place. Throws UsageFailure if the limit on locked memory is
/// too low.
void lock_memory(const void* begin, std::size_t bytes);

}  // namespace babelring
