#pragma once

#include <cstdint>
#include <functional>
#include <span>
#include <string>
#include <vector>

#include "insight/predict/fits.h"
#include "insight/predict/gradient_sum.h"
#include "insight/predict/rank_record.h"
#include "insight/predict/simulation.h"

namespace babelring::insight {

/// The sizes of one update in the record's unit: one for all ranks, or one for each rank.
using UpdateSizes = std::vector<double>;

/// The run to predict.
struct RunSetup {
  Topology topology = {};
  double bucket_mb = 0;  // 0: as recorded
  int accumulate = 1;    // micro-batches of the recorded size in each update; sums run beside the last one
  LoaderPlan loader = {};
  double read_ms = 0;                   // of an update's bytes that are not cached, on the rank's part of the storage
  double straggler = 0;                 // per cent by which one rank computes slower than the others
  std::vector<UpdateSizes> sizes = {};  // of the updates, repeated in turn; empty: as recorded
  std::int64_t updates = 1000;
};

/// Predicted times and rates of a run. Rates are of all ranks together.
struct Prediction {
  Quantiles step_ms;  // over updates, of the mean over ranks
  /// The interval of the median step, from the errors of the compute times and of the links. Equal to the median if
  /// none is known.
  double low_ms = 0, high_ms = 0;
  StepParts parts;              // means over ranks and updates, which add up to the mean step
  double seconds = 0;           // of all updates
  double size_per_s = 0;        // in the record's unit
  double efficiency = 0;        // size_per_s over (ranks · that of one rank)
  double communication_ms = 0;  // sums and gathers in progress, hidden or exposed, for each update
  double host_megabytes = 0;    // that a host sends to other hosts in each update; it receives as much
  double rank_megabytes = 0;    // that a rank sends in each update
  std::vector<std::string> warnings = {};
};

/// Predicts a run from one rank's record. The slowest of all ranks counts, since each update's times vary by recorded
/// factors, drawn with `seed`. Pure: the same arguments give the same result. Throws UsageFailure if a number of the
/// setup is out of range or if the record lacks what the setup needs.
Prediction predict(const RankRecord& record, const RunSetup& setup, std::uint64_t seed);

/// The median step of predict() alone, which takes a fifth of the time.
double predict_step_ms(const RankRecord& record, const RunSetup& setup, std::uint64_t seed);

/// One simulated update.
struct SimulatedUpdate {
  std::int64_t number = 0;  // from 1
  std::span<const RankOutcome> ranks;
  std::span<const CollectiveTimes> sums;
  std::span<const Bucket> buckets;           // of the sums
  std::span<const CollectiveTimes> gathers;  // of the buckets' weights, the last bucket first
  double size = 0;                           // of all ranks
};

/// Runs the simulation of predict() and passes each update to `each`.
void simulate(const RankRecord& record, const RunSetup& setup, std::uint64_t seed,
              const std::function<void(const SimulatedUpdate&)>& each);

/// A measured run, and what predicts it.
struct CalibrationRun {
  RankRecord record;
  RunSetup setup;
  double measured_ms = 0;  // median step
};

/// The calibration with which the records predict the steps of these runs best: the smallest sum of the squared
/// logarithms of predicted over measured, plus a small multiple of the squared logarithms of the factors, so that what
/// the runs do not tell stays as it is. The records' own calibrations are replaced. Pure and deterministic.
Calibration calibrate(std::span<const CalibrationRun> runs, std::uint64_t seed);

}  // namespace babelring::insight
