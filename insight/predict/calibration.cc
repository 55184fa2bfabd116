#include "insight/predict/predict.h"

#include <cmath>
#include <utility>
#include <vector>

namespace babelring::insight {
namespace {

constexpr int rounds = 3, halvings = 9;
constexpr std::int64_t simulated_updates = 16;
constexpr double prior = 1e-4;            // weight of a factor's squared logarithm
constexpr double overhead_unit_ms = 0.1;  // of a sum's overhead, whose factor is 1 + overhead / unit

/// One number of a calibration as the logarithm of a factor within bounds.
struct Dial {
  double Calibration::* member;
  double low, high;  // logarithms
};
const Dial dials[] = {{&Calibration::crowding, -0.5, 0.7},
                      {&Calibration::between_share, -1.5, 0.3},
                      {&Calibration::inside_share, -2.5, 1.5},
                      {&Calibration::busy_share, -1.5, 1.5},
                      {&Calibration::sum_overhead_ms, 0, 4.5}};

void turn(Calibration& calibration, const Dial& dial, double logarithm) {
  const double factor = std::exp(logarithm);
  const bool overhead = dial.member == &Calibration::sum_overhead_ms;
  calibration.*dial.member = overhead ? overhead_unit_ms * (factor - 1) : factor;
}

double position(const Calibration& calibration, const Dial& dial) {
  const double value = calibration.*dial.member;
  return std::log(dial.member == &Calibration::sum_overhead_ms ? 1 + value / overhead_unit_ms : value);
}

/// The error that calibrate() minimises.
double misfit(std::vector<CalibrationRun>& runs, const Calibration& calibration, std::uint64_t seed) {
  double sum = 0;
  for (const Dial& dial : dials) sum += prior * std::pow(position(calibration, dial), 2);
  for (CalibrationRun& run : runs) {
    run.record.calibration = calibration;
    const double error = std::log(predict_step_ms(run.record, run.setup, seed) / run.measured_ms);
    sum += error * error / static_cast<double>(runs.size());
  }
  return sum;
}

/// Golden-section search for the best position of one dial, which is kept only if it is better than the present one.
void turn_to_best(std::vector<CalibrationRun>& runs, const Dial& dial, std::uint64_t seed, Calibration& best,
                  double& best_misfit) {
  const double ratio = (std::sqrt(5.0) - 1) / 2;
  const auto misfit_at = [&](double logarithm) {
    Calibration tried = best;
    turn(tried, dial, logarithm);
    return misfit(runs, tried, seed);
  };
  double low = dial.low, high = dial.high;
  double left = high - ratio * (high - low), right = low + ratio * (high - low);
  double at_left = misfit_at(left), at_right = misfit_at(right);
  for (int i = 0; i < halvings; ++i) {
    if (at_left < at_right) {
      high = std::exchange(right, left);
      at_right = at_left;
      left = high - ratio * (high - low);
      at_left = misfit_at(left);
    } else {
      low = std::exchange(left, right);
      at_left = at_right;
      right = low + ratio * (high - low);
      at_right = misfit_at(right);
    }
  }
  const double found = at_left < at_right ? at_left : at_right;
  if (found >= best_misfit) return;
  best_misfit = found;
  turn(best, dial, at_left < at_right ? left : right);
}

}  // namespace

Calibration calibrate(std::span<const CalibrationRun> runs, std::uint64_t seed) {
  std::vector<CalibrationRun> fitted(runs.begin(), runs.end());
  for (CalibrationRun& run : fitted) run.setup.updates = simulated_updates;
  Calibration best;
  if (fitted.empty()) return best;
  double best_misfit = misfit(fitted, best, seed);
  for (int round = 0; round < rounds; ++round) {
    for (const Dial& dial : dials) turn_to_best(fitted, dial, seed, best, best_misfit);
  }
  return best;
}

}  // namespace babelring::insight
