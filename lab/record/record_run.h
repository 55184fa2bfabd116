#pragma once

#include <cstdint>
#include <vector>

#include "insight/predict/rank_record.h"
#include "nmt/ops/backend.h"
#include "nmt/train/setup/config.h"

namespace babelring {

/// The updates that a record rests on.
struct RecordPlan {
  TrainConfig config;
  std::vector<double> sizes = {0.5, 1, 2};  // factors on the size of an update; one of them is 1
  std::int64_t updates = 20;                // recorded of each size, after a warm-up
  int threads = 0;                          // the backend's; 0: unknown
  int neighbours = 0;                       // ranks that train beside it on the CPU
};

/// Trains one rank of the configuration in this process, from initial weights, without validations and checkpoints, for
/// a few updates of each size, and records the times of their ops. Gradients are not summed, so the record says nothing
/// about slowdown beside communication. Throws UsageFailure if the plan has no size 1 or a size has less than one
/// sequence, Failure if data are missing or damaged.
insight::RankRecord record_rank(const RecordPlan& plan, Backend& backend);

/// The model, task and precision of a configuration whose model has that many parameters.
insight::RecordedModel recorded_model(const TrainConfig& config, std::int64_t parameters);

/// Sets the model's name, task and precision, the machine, the program's version and the date of a record that is made
/// now.
void describe_origin(insight::RankRecord& record, const TrainConfig& config, const Backend& backend);

}  // namespace babelring
