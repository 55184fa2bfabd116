#include "insight/predict/predict.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <ranges>

#include "base/failure.h"

namespace babelring::insight {
namespace {

// Updates of the further simulations for the interval and for one rank.
constexpr std::int64_t comparison_updates = 200;
constexpr double network_bound_share = 0.5;
constexpr std::int64_t many_times = 8;  // the ranks of the runs that an error rests on

void require(bool holds, const char* name, double found, const char* expected) {
  if (!holds) throw UsageFailure(fmt::format("{}: found {}, expected {}", name, found, expected));
}

void check_link(const Link& link, const char* name) {
  const std::string rate = fmt::format("{} rate in Gbit/s", name), latency = fmt::format("{} latency in us", name);
  require(link.gbit_per_s > 0, rate.c_str(), link.gbit_per_s, "above 0");
  require(link.latency_us >= 0 && std::isfinite(link.latency_us), latency.c_str(), link.latency_us, "at least 0");
  require(link.busy_ms_per_gb >= 0, "busy_ms_per_gb", link.busy_ms_per_gb, "at least 0");
}

void check_setup(const RankRecord& record, const RunSetup& setup) {
  const Topology& topology = setup.topology;
  require(topology.hosts >= 1, "hosts", topology.hosts, "at least 1");
  require(topology.ranks_per_host >= 1, "ranks per host", topology.ranks_per_host, "at least 1");
  require(setup.accumulate >= 1, "accumulate", setup.accumulate, "at least 1");
  require(setup.updates >= 1, "updates", static_cast<double>(setup.updates), "at least 1");
  require(setup.bucket_mb >= 0 && std::isfinite(setup.bucket_mb), "bucket-mb", setup.bucket_mb, "above 0");
  require(setup.straggler >= 0, "straggler", setup.straggler, "at least 0 per cent");
  require(setup.loader.threads >= 1, "loader threads", setup.loader.threads, "at least 1");
  require(setup.loader.prefetch >= 1, "prefetch", setup.loader.prefetch, "at least 1");
  require(setup.read_ms >= 0, "read_ms", setup.read_ms, "at least 0");
  if (topology.ranks_per_host > 1) check_link(topology.inside, "inside:");
  if (topology.hosts > 1) check_link(topology.between, "between:");
  if (topology.ranks() > 1 && record.buckets.empty()) {
    throw UsageFailure(
        "the record has no gradients, expected buckets for more than one rank: make it with --parameters");
  }
  if (topology.shards_optimizer() && !topology.can_shard_optimizer()) {
    throw UsageFailure(
        fmt::format("optimizer {}: found algorithm {} with {} ranks on each host, expected two_level, or "
                    "ring with one rank on each host",
                    word_of(optimizer_choices(), topology.optimizer), word_of(algorithm_choices(), topology.algorithm),
                    topology.ranks_per_host));
  }
  if (topology.algorithm == AllReduceAlgorithm::shared_memory && topology.hosts > 1) {
    throw UsageFailure(fmt::format("algorithm shared_memory: found {} hosts, expected 1", topology.hosts));
  }
  for (const UpdateSizes& sizes : setup.sizes) {
    const bool fits = sizes.size() == 1 || sizes.size() == static_cast<std::size_t>(topology.ranks());
    if (!fits) {
      throw UsageFailure(fmt::format("sizes of an update: found {}, expected one, or one for each of {} ranks",
                                     sizes.size(), topology.ranks()));
    }
    for (const double size : sizes) require(size >= 0, "size", size, "at least 0");
  }
}

/// Draws the times of ranks from a record's phases.
class TimesMaker {
 public:
  TimesMaker(const RankRecord& record, const RunSetup& setup, std::uint64_t seed)
      : record_(record),
        setup_(setup),
        seed_(seed),
        transfer_(record.phase_ms("transfer")),
        forward_(record.phase_ms("forward")),
        backward_(record.phase_ms("backward")),
        optimizer_(record.phase_ms("optimizer")),
        make_batch_{record.make_batch_ms},
        other_{record.other_ms},
        jitter_{record.jitter} {}

  RankTimes times(std::size_t rank, std::int64_t update, double size) const {
    const auto number = static_cast<std::uint64_t>(update) * 4;
    double factor = jitter_.draw(draw_bits(seed_, rank, number), 1);
    if (rank == 0) factor *= 1 + setup_.straggler / 100;
    const double n = setup_.accumulate, ranks = setup_.topology.ranks();
    const bool one_copy = setup_.topology.algorithm == AllReduceAlgorithm::shared_memory;
    const double part = setup_.topology.shards_optimizer() ? 1.0 / setup_.topology.hosts : one_copy ? 1 / ranks : 1;
    if (ranks > 1 && !one_copy) factor *= record_.calibration.crowding;
    const double backward = backward_.at(size) * factor;
    return {.read = n * setup_.read_ms,
            .make_batch = n * make_batch_.draw(draw_bits(seed_, rank, number + 1), 0),
            .transfer = n * transfer_.at(size),
            .forward = n * forward_.at(size) * factor,
            .earlier_backward = (n - 1) * backward,
            .backward = backward,
            .optimizer = optimizer_.at(size) * factor * part,
            .other = other_.draw(draw_bits(seed_, rank, number + 2), 0)};
  }

 private:
  const RankRecord& record_;
  const RunSetup& setup_;
  std::uint64_t seed_;
  Curve transfer_, forward_, backward_, optimizer_;
  Samples make_batch_, other_, jitter_;
};

/// The buckets as they are summed: all at the end if nothing is summed beside backward.
std::vector<Bucket> summed_buckets(const RankRecord& record, const RunSetup& setup) {
  if (setup.topology.ranks() < 2) return {};
  std::vector<Bucket> buckets = record.buckets;
  if (setup.topology.algorithm == AllReduceAlgorithm::shared_memory) return {{record.gradient_megabytes(), 1}};
  if (setup.bucket_mb > 0) buckets = rebucketed(buckets, setup.bucket_mb);
  if (setup.topology.algorithm == AllReduceAlgorithm::staged) {
    for (Bucket& bucket : buckets) bucket.ready = 1;
  }
  return buckets;
}

/// The gathers begin with the weights that forward reads first: those whose gradients backward completes last.
/// Forward reads them at the mirrored place, in the first of `accumulate` micro-batches.
SumPlan plan_of(const RankRecord& record, Topology topology, int accumulate, std::span<const Bucket> buckets) {
  const Calibration& calibration = record.calibration;
  topology.inside.gbit_per_s *= calibration.inside_share;
  topology.between.gbit_per_s *= calibration.between_share;
  SumPlan plan{.slowdown = calibration.slowdown, .processors = record.processors_of_rank()};
  for (const Bucket& bucket : buckets) {
    plan.sums.push_back({.ready = bucket.ready,
                         .ms = sum_ms(topology, bucket.megabytes) + calibration.sum_overhead_ms,
                         .busy_ms = calibration.busy_share * busy_ms(topology, bucket.megabytes)});
  }
  if (!topology.shards_optimizer()) return plan;
  for (const Bucket& bucket : std::views::reverse(buckets)) {
    plan.gathers.push_back({.needed = (1 - bucket.ready) / accumulate,
                            .ms = gather_ms(topology, bucket.megabytes) + calibration.sum_overhead_ms,
                            .busy_ms = calibration.busy_share * gather_busy_ms(topology, bucket.megabytes)});
  }
  return plan;
}

/// Adds up the updates of one simulation.
class Totals {
 public:
  void add(const SimulatedUpdate& update) {
    const double weight = 1 / static_cast<double>(update.ranks.size());
    double step = 0, end = 0;
    for (const RankOutcome& rank : update.ranks) {
      StepParts::each([&](double StepParts::* part) { sum_.*part += rank.parts.*part * weight; });
      step += (rank.end - rank.begin) * weight;
      end = std::max(end, rank.end);
    }
    for (const auto& collectives : {update.sums, update.gathers}) {
      for (const CollectiveTimes& one : collectives) communication_ += one.end - one.begin;
    }
    steps_.push_back(step);
    end_ms_ = end;
    size_ += update.size;
  }
  Prediction prediction() && {
    const auto n = static_cast<double>(steps_.size());
    StepParts::each([&](double StepParts::* part) { sum_.*part /= n; });
    Prediction result{.step_ms = quantiles_of(std::move(steps_)),
                      .parts = sum_,
                      .seconds = end_ms_ / 1000,
                      .size_per_s = end_ms_ > 0 ? size_ / end_ms_ * 1000 : 0,
                      .communication_ms = communication_ / n};
    result.low_ms = result.high_ms = result.step_ms.median;
    return result;
  }

 private:
  StepParts sum_;
  std::vector<double> steps_;
  double communication_ = 0, end_ms_ = 0, size_ = 0;
};

Prediction run(const RankRecord& record, const RunSetup& setup, std::uint64_t seed) {
  Totals totals;
  simulate(record, setup, seed, [&totals](const SimulatedUpdate& update) { totals.add(update); });
  return std::move(totals).prediction();
}

/// The mean step of a short simulation with compute times and link rates at one end of their uncertainty: `sign` 1 is
/// the slow end.
double mean_at_end(const RankRecord& record, RunSetup setup, std::uint64_t seed, double sign) {
  RankRecord changed = record;
  const double factor = std::max(0.0, 1 + sign * record.compute_error);
  for (PhaseTime& time : changed.times) time.ms *= factor;
  for (OpRecord& op : changed.ops) {
    for (double* each : {&op.fixed_ms, &op.ms_per_gflop, &op.ms_per_gb}) *each *= factor;
  }
  for (Link* link : {&setup.topology.inside, &setup.topology.between}) {
    link->gbit_per_s *= std::max(1e-3, 1 - sign * link->rate_error);
  }
  return run(changed, setup, seed).step_ms.mean;
}

void add_interval(const RankRecord& record, RunSetup setup, std::uint64_t seed, Prediction& result) {
  const Topology& topology = setup.topology;
  const bool known = record.compute_error > 0 || topology.inside.rate_error > 0 || topology.between.rate_error > 0;
  setup.updates = std::min(setup.updates, comparison_updates);
  const double middle = known ? run(record, setup, seed).step_ms.mean : 0;
  if (middle <= 0) return;
  result.low_ms *= mean_at_end(record, setup, seed, -1) / middle;
  result.high_ms *= mean_at_end(record, setup, seed, 1) / middle;
}

void add_efficiency(const RankRecord& record, RunSetup setup, std::uint64_t seed, Prediction& result) {
  const double ranks = setup.topology.ranks();
  setup.topology.hosts = setup.topology.ranks_per_host = 1;
  setup.updates = std::min(setup.updates, comparison_updates);
  setup.straggler = 0;
  for (UpdateSizes& sizes : setup.sizes) sizes.resize(1);
  const double alone = ranks > 1 ? run(record, setup, seed).size_per_s : result.size_per_s;
  result.efficiency = alone > 0 ? result.size_per_s / (ranks * alone) : 0;
}

void add_warnings(const RankRecord& record, const RunSetup& setup, Prediction& result) {
  const auto warn = [&result](std::string text) { result.warnings.push_back(std::move(text)); };
  if (!record.quality.empty() && record.quality != "good")
    warn(fmt::format("the record is doubtful: {}", record.quality));
  double low = record.size, high = record.size;
  for (const UpdateSizes& sizes : setup.sizes) {
    for (const double size : sizes) {
      low = std::min(low, size);
      high = std::max(high, size);
    }
  }
  for (const double size : {high, low}) {
    if (std::string warning = record.size_warning(size); !warning.empty()) warn(std::move(warning));
  }
  if (!is_offered(setup.topology.algorithm)) {
    warn(fmt::format("the worker does not offer the algorithm {}",
                     word_of(algorithm_choices(), setup.topology.algorithm)));
  }
  if (record.compute_error <= 0) warn("the error of the compute times is unknown: the record compares none");
  const int ranks = setup.topology.ranks();
  if (record.step_ranks > 0 && ranks > many_times * record.step_ranks) {
    warn(fmt::format("{} ranks, but the error rests on runs of up to {}: it may be larger", ranks, record.step_ranks));
  }
  if (result.parts.exposed_communication > network_bound_share * result.step_ms.mean) {
    warn("the network bounds the step: comparing it with a measured one tests the traffic, not the compute times");
  }
}

}  // namespace

void simulate(const RankRecord& record, const RunSetup& setup, std::uint64_t seed,
              const std::function<void(const SimulatedUpdate&)>& each) {
  check_setup(record, setup);
  const std::vector<Bucket> buckets = summed_buckets(record, setup);
  const SumPlan plan = plan_of(record, setup.topology, setup.accumulate, buckets);
  const TimesMaker maker(record, setup, seed);
  const auto ranks = static_cast<std::size_t>(setup.topology.ranks());
  const UpdateSizes recorded = {record.size};
  Simulation simulation(ranks, setup.loader);
  std::vector<RankTimes> times(ranks);
  for (std::int64_t update = 0; update < setup.updates; ++update) {
    const UpdateSizes& sizes =
        setup.sizes.empty() ? recorded : setup.sizes[static_cast<std::size_t>(update) % setup.sizes.size()];
    double size = 0;
    for (std::size_t rank = 0; rank < ranks; ++rank) {
      const double own = sizes.size() == 1 ? sizes[0] : sizes[rank];
      times[rank] = maker.times(rank, update, own);
      size += own * setup.accumulate;
    }
    const auto outcomes = simulation.update(times, plan);
    each({.number = update + 1,
          .ranks = outcomes,
          .sums = simulation.sums(),
          .buckets = buckets,
          .gathers = simulation.gathers(),
          .size = size});
  }
}

double predict_step_ms(const RankRecord& record, const RunSetup& setup, std::uint64_t seed) {
  return run(record, setup, seed).step_ms.median;
}

Prediction predict(const RankRecord& record, const RunSetup& setup, std::uint64_t seed) {
  Prediction result = run(record, setup, seed);
  for (const Bucket& bucket : summed_buckets(record, setup)) {
    result.host_megabytes += host_megabytes(setup.topology, bucket.megabytes);
    result.rank_megabytes += rank_megabytes(setup.topology, bucket.megabytes);
  }
  add_interval(record, setup, seed, result);
  add_efficiency(record, setup, seed, result);
  add_warnings(record, setup, result);
  return result;
}

}  // namespace babelring::insight
