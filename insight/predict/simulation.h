#pragma once

#include <cstdint>
#include <span>
#include <utility>
#include <vector>

#include "base/records/step_times.h"

namespace babelring::insight {

/// How long the parts of one update take on one rank alone, in ms.
struct RankTimes {
  double read = 0, make_batch = 0;  // beside training
  double transfer = 0, forward = 0;
  double earlier_backward = 0;  // of all micro-batches but the last
  double backward = 0;          // of the last micro-batch
  double optimizer = 0, other = 0;
};

/// The gradient sums of an update, and the gathers of weights after its optimizer, each in their order.
struct SumPlan {
  struct Sum {
    double ready = 1;  // part of backward that is done on a rank when the rank can take part
    double ms = 0;
    double busy_ms = 0;  // processor time of a rank that the sum takes
  };
  struct Gather {
    double needed = 0;  // part of the next update's forward that is done when a rank reads these weights
    double ms = 0;
    double busy_ms = 0;  // processor time of a rank that the gather takes
  };
  std::vector<Sum> sums = {};
  std::vector<Gather> gathers = {};  // empty: the ranks need no weights of others
  double slowdown = 1;               // factor on computing while a sum or a gather is in progress
  double processors = 1;             // of a rank; busy_ms is divided between them
};

/// The queue of batches between the loader and training.
struct LoaderPlan {
  int threads = 1;   // batches that are made at once
  int prefetch = 2;  // batches that are made or being made before training takes them
};

/// The times of a predicted update in ms. The parts and `transfer` add up to `step`.
struct StepParts : StepTimes {
  double transfer = 0;             // of the batch to the device
  double waiting_for_slowest = 0;  // part of exposed_communication in which the slowest rank was still computing

  /// Calls `use` with a pointer to each part, and to waiting_for_slowest.
  template <class Use>
  static void each(Use use) {
    for (const StepTimesMember& member : step_part_members) use(static_cast<double StepParts::*>(member.value));
    use(&StepParts::transfer);
    use(&StepParts::waiting_for_slowest);
  }
  double total() const { return transfer + sum_of_parts(); }
};

/// The parts of an update and their names in tables, as those of step records, in the order in which they follow.
std::vector<std::pair<const char*, double>> named_parts(const StepParts& parts);

/// One rank in one update, in ms of virtual time. end − begin is the sum of the parts.
struct RankOutcome {
  double begin = 0, end = 0;
  StepParts parts = {};
};

/// The times of one gradient sum or gather.
struct CollectiveTimes {
  double asked = 0, begin = 0, end = 0;  // asked: when the last rank was ready
  double rate = 1;                       // of a rank's computing while it is in progress, 1: full speed
};

/// Simulates the updates of a run in virtual time. One engine works through the sums of an update in their order, each
/// not before all ranks are ready; the sums that remain at the end of backward are exposed. Gathers follow when all
/// ranks have finished the optimizer; the next forward waits for each where it reads the weights. Ranks wait for each
/// other only there. At time 0 the queues of batches are full. An update costs a few operations for each rank and sum.
class Simulation {
 public:
  Simulation(std::size_t ranks, LoaderPlan loader);

  /// Runs the next update. `times` holds the times of each rank. The result is valid until the next call.
  std::span<const RankOutcome> update(std::span<const RankTimes> times, const SumPlan& plan);
  /// The sums of the last update.
  std::span<const CollectiveTimes> sums() const { return sums_; }
  /// The gathers after its optimizer.
  std::span<const CollectiveTimes> gathers() const { return gathers_; }

 private:
  /// A rank's position in forward or backward.
  struct Pass {
    double time = 0, done = 0;  // done: part, 0 to 1
    std::size_t next = 0;       // first collective that may still be in progress at `time`

    /// Moves the rank to the moment at which `part` of a pass of `ms` is done; collectives in progress slow it down.
    void advance(double part, double ms, std::span<const CollectiveTimes> collectives);
  };
  struct Rank {
    double clock = 0, storage_free = 0, last_available = 0;
    std::vector<double> taken, made;  // of the last batches, by number modulo size
    Pass backward;
  };
  double batch_available(Rank& rank, const RankTimes& times) const;
  /// Runs forward from `begin` on. Returns the time at its end.
  double run_forward(double begin, const SumPlan& plan, RankOutcome& out) const;
  void run_sums(std::span<const RankTimes> times, const SumPlan& plan);
  void run_gathers(const SumPlan& plan);

  LoaderPlan loader_;
  std::size_t updates_ = 0;
  std::vector<Rank> ranks_;
  std::vector<RankOutcome> outcomes_;
  std::vector<CollectiveTimes> sums_, gathers_;
};

}  // namespace babelring::insight
