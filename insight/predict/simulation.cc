#include "insight/predict/simulation.h"

#include <algorithm>

#include "base/failure.h"

namespace babelring::insight {
namespace {

// A communication thread cannot take more than this part of the processors.
constexpr double max_busy_share = 0.95;

/// Part of a rank's computing speed that is left while a collective is in progress.
double rate_beside(double ms, double busy_ms, const SumPlan& plan) {
  const double busy = ms > 0 ? std::min(max_busy_share, busy_ms / (ms * plan.processors)) : 0;
  return (1 - busy) / plan.slowdown;
}

/// Adds a collective behind the one before.
void add_collective(double asked, double ms, double rate, std::vector<CollectiveTimes>& collectives) {
  const double begin = collectives.empty() ? asked : std::max(asked, collectives.back().end);
  collectives.push_back({asked, begin, begin + ms, rate});
}

}  // namespace

std::vector<std::pair<const char*, double>> named_parts(const StepParts& parts) {
  std::vector<std::pair<const char*, double>> named;
  for (const StepTimesMember& member : step_part_members) {
    named.emplace_back(member.key, parts.*member.value);
    if (member.value == &StepTimes::data) named.emplace_back("transfer_ms", parts.transfer);
  }
  return named;
}

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

void Simulation::Pass::advance(double part, double ms, std::span<const CollectiveTimes> collectives) {
  double work = (part - done) * ms;
  if (work <= 0) return;
  done = part;
  while (work > 0 && next < collectives.size()) {
    const CollectiveTimes& collective = collectives[next];
    const double alone = std::min(work, std::max(0.0, collective.begin - time));
    time += alone;
    work -= alone;
    if (work <= 0) return;
    const double room = std::max(0.0, collective.end - time) * collective.rate;
    if (work <= room) {
      time += work / collective.rate;
      return;
    }
    work -= room;
    time = std::max(time, collective.end);
    ++next;
  }
  time += work;
}

/// Waits for the weights that the gathers of the update before bring.
double Simulation::run_forward(double begin, const SumPlan& plan, RankOutcome& out) const {
  Pass pass{.time = begin};
  double waited = 0;
  for (std::size_t i = 0; i < gathers_.size(); ++i) {
    pass.advance(plan.gathers[i].needed, out.parts.forward, gathers_);
    const double wait = std::max(0.0, gathers_[i].end - pass.time);
    pass.time += wait;
    waited += wait;
  }
  pass.advance(1, out.parts.forward, gathers_);
  out.parts.forward = pass.time - begin - waited;
  out.parts.exposed_communication = waited;
  return pass.time;
}

void Simulation::run_sums(std::span<const RankTimes> times, const SumPlan& plan) {
  sums_.clear();
  for (const SumPlan::Sum& sum : plan.sums) {
    double asked = 0;
    for (std::size_t r = 0; r < ranks_.size(); ++r) {
      ranks_[r].backward.advance(sum.ready, times[r].backward, sums_);
      asked = std::max(asked, ranks_[r].backward.time);
    }
    add_collective(asked, sum.ms, rate_beside(sum.ms, sum.busy_ms, plan), sums_);
  }
}

void Simulation::run_gathers(const SumPlan& plan) {
  gathers_.clear();
  double asked = 0;
  for (const RankOutcome& out : outcomes_) asked = std::max(asked, out.end - out.parts.other);
  for (const SumPlan::Gather& gather : plan.gathers) {
    add_collective(asked, gather.ms, rate_beside(gather.ms, gather.busy_ms, plan), gathers_);
  }
}

std::span<const RankOutcome> Simulation::update(std::span<const RankTimes> times, const SumPlan& plan) {
  if (times.size() != ranks_.size()) fail("simulation: found {} ranks, expected {}", times.size(), ranks_.size());
  if (!gathers_.empty() && gathers_.size() != plan.gathers.size()) {
    fail("simulation: found {} gathers, expected {} as before", plan.gathers.size(), gathers_.size());
  }
  for (std::size_t r = 0; r < ranks_.size(); ++r) {
    Rank& rank = ranks_[r];
    RankOutcome& out = outcomes_[r];
    out = {.begin = rank.clock};
    out.parts.transfer = times[r].transfer;
    out.parts.forward = times[r].forward;
    out.parts.data = std::max(0.0, batch_available(rank, times[r]) - rank.clock);
    const double start = rank.clock + out.parts.data;
    rank.taken[updates_ % rank.taken.size()] = start;
    const double forward_done = run_forward(start + out.parts.transfer, plan, out);
    rank.backward = {.time = forward_done + times[r].earlier_backward};
    out.parts.backward = -forward_done;  // until the end of backward is known
  }
  run_sums(times, plan);
  double slowest = 0;
  for (std::size_t r = 0; r < ranks_.size(); ++r) {
    ranks_[r].backward.advance(1, times[r].backward, sums_);
    slowest = std::max(slowest, ranks_[r].backward.time);
  }
  for (std::size_t r = 0; r < ranks_.size(); ++r) {
    const double done = ranks_[r].backward.time;
    RankOutcome& out = outcomes_[r];
    out.parts.backward += done;
    const double exposed = sums_.empty() ? 0 : std::max(0.0, sums_.back().end - done);
    out.parts.exposed_communication += exposed;
    out.parts.waiting_for_slowest = std::min(exposed, slowest - done);
    out.parts.optimizer = times[r].optimizer;
    out.parts.other = times[r].other;
    out.end = done + exposed + out.parts.optimizer + out.parts.other;
    out.parts.step = out.end - out.begin;
    ranks_[r].clock = out.end;
  }
  run_gathers(plan);
  ++updates_;
  return outcomes_;
}

}  // namespace babelring::insight
