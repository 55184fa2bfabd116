#pragma once

#include <functional>
#include <vector>

#include "tests/bench/peaks_output.h"
#include "tests/bench/training_case.h"

namespace babelring {

struct MeasurementOptions {
  int updates = 5;            // timed, in each repeat
  int warm_up = 2;            // updates before them
  int repeats = 1;            // each with the machine's peaks before and after
  double peak_seconds = 0.1;  // for each of the peaks
  std::int64_t threads = 1;   // of each rank
  RecordSink* records = nullptr;
};

/// One update of all ranks together.
struct UpdateCost {
  double wall_ms = 0;
  std::int64_t source_tokens = 0, target_tokens = 0;
  double flops = 0, unavoidable_bytes = 0;
  double roofline_ms = 0;  // by the peaks around it
};

struct TrainMeasurement {
  DType type = DType::f32;           // of matmuls
  std::vector<TimedUpdate> updates;  // of this rank
  std::vector<UpdateCost> costs;     // of all ranks, one an update
  MachinePeaks peaks;                // of all ranks together, the largest
  double first_loss = 0;             // of the first update ever
  std::int64_t memory_bytes = 0;     // largest resident size of this process while it trained
  std::int64_t device_bytes = 0;     // in use of the device's memory, by everyone, after its updates; 0: no device
};

/// On every rank.
TrainMeasurement measure_training(TrainingCase& training, Communicator& communicator,
                                  const MeasurementOptions& options);

/// Least time of an update: matmuls at the measured rate, then what must move at the measured bandwidth.
double roofline_ms(const MachinePeaks& peaks, DType type, double flops, double bytes);

/// The middle value, or the mean of the two; the values must not be empty.
double median(std::vector<double> values);

/// Rates, times and the share of the roofline; medians over updates.
json::object summarize(const TrainMeasurement& measurement);

}  // namespace babelring
