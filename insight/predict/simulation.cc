#include "insight/predict/simulation.h"

#include <algorithm>

#include "base/failure.h"

namespace babelring::insight {
namespace {

// A communication thread cannot take more than this part of the processors from backward.
constexpr double max_busy_share = 0.95;

/// Part of backward's speed that is left while a sum is in progress.
double rate_beside(const SumPlan& plan, std::size_t sum) {
  const SumPlan::Sum& one = plan.sums[sum];
  const double busy = one.ms > 0 ? std::min(max_busy_share, one.busy_ms / (one.ms * plan.processors)) : 0;
  return (1 - busy) / plan.slowdown;
}

}  // namespace

Simulation::Simulation(std::size_t ranks, LoaderPlan loader) : loader_(loader), ranks_(ranks), outcomes_(ranks) {
  if (ranks == 0 || loader.threads < 1 || loader.prefetch < 1) {
    fail("simulation: found {} ranks, {} loader threads and {} prefetched batches, expected at least 1 of each", ranks,
         loader.threads, loader.prefetch);
  }
  for (Rank& rank : ranks_) {
    rank.taken.resize(static_cast<std::size_t>(loader.prefetch));
    rank.made.resize(static_cast<std::size_t>(loader.threads));
  }
}

/// When the next batch can be taken. Its making began when the queue had a free place, a thread was free and its bytes
/// had been read.
double Simulation::batch_available(Rank& rank, const RankTimes& times) const {
  const std::size_t prefetch = rank.taken.size(), threads = rank.made.size();
  if (updates_ < prefetch) return 0;  // the queue was full at time 0
  const double place_free = rank.taken[updates_ % prefetch];
  rank.storage_free = std::max(rank.storage_free, place_free) + times.read;
  double& thread_free = rank.made[updates_ % threads];
  thread_free = std::max(rank.storage_free, thread_free) + times.make_batch;
  rank.last_available = std::max(rank.last_available, thread_free);
  return rank.last_available;
}

/// Moves a rank to the moment at which `part` of its backward is done; sums in progress slow it down.
void Simulation::advance(Backward& backward, double part, double backward_ms, const SumPlan& plan) const {
  double work = (part - backward.done) * backward_ms;
  if (work <= 0) return;
  backward.done = part;
  while (work > 0 && backward.next < sums_.size()) {
    const SumTimes& sum = sums_[backward.next];
    const double alone = std::min(work, std::max(0.0, sum.begin - backward.time));
    backward.time += alone;
    work -= alone;
    if (work <= 0) return;
    const double rate = rate_beside(plan, backward.next);
    const double room = std::max(0.0, sum.end - backward.time) * rate;
    if (work <= room) {
      backward.time += work / rate;
      return;
    }
    work -= room;
    backward.time = std::max(backward.time, sum.end);
    ++backward.next;
  }
  backward.time += work;
}

std::span<const RankOutcome> Simulation::update(std::span<const RankTimes> times, const SumPlan& plan) {
  if (times.size() != ranks_.size()) fail("simulation: found {} ranks, expected {}", times.size(), ranks_.size());
  sums_.clear();
  for (std::size_t r = 0; r < ranks_.size(); ++r) {
    Rank& rank = ranks_[r];
    RankOutcome& out = outcomes_[r];
    out = {.begin = rank.clock, .transfer = times[r].transfer, .forward = times[r].forward};
    out.data_wait = std::max(0.0, batch_available(rank, times[r]) - rank.clock);
    const double start = rank.clock + out.data_wait;
    rank.taken[updates_ % rank.taken.size()] = start;
    rank.backward = {.time = start + out.transfer + out.forward + times[r].earlier_backward};
    out.backward = times[r].earlier_backward - rank.backward.time;  // until the end of backward is known
  }
  for (const SumPlan::Sum& sum : plan.sums) {
    double asked = 0;
    for (std::size_t r = 0; r < ranks_.size(); ++r) {
      advance(ranks_[r].backward, sum.ready, times[r].backward, plan);
      asked = std::max(asked, ranks_[r].backward.time);
    }
    const double begin = sums_.empty() ? asked : std::max(asked, sums_.back().end);
    sums_.push_back({asked, begin, begin + sum.ms});
  }
  double slowest = 0;
  for (std::size_t r = 0; r < ranks_.size(); ++r) {
    advance(ranks_[r].backward, 1, times[r].backward, plan);
    slowest = std::max(slowest, ranks_[r].backward.time);
  }
  for (std::size_t r = 0; r < ranks_.size(); ++r) {
    const double done = ranks_[r].backward.time;
    RankOutcome& out = outcomes_[r];
    out.backward += done;
    out.exposed = sums_.empty() ? 0 : std::max(0.0, sums_.back().end - done);
    out.waiting_for_slowest = std::min(out.exposed, slowest - done);
    out.optimizer = times[r].optimizer;
    out.other = times[r].other;
    out.end = done + out.exposed + out.optimizer + out.other;
    ranks_[r].clock = out.end;
  }
  ++updates_;
  return outcomes_;
}

}  // namespace babelring::insight
