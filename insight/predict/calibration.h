#pragma once

#include <cstdint>
#include <span>

#include "insight/predict/predict.h"

namespace babelring::insight {

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
