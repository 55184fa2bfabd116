#pragma once

#include <cstdint>
#include <exception>
#include <memory>
#include <thread>
#include <vector>

#include "insight/predict/rank_record.h"
#include "nmt/ops/backend.h"
#include "nmt/train/setup/config.h"
#include "nmt/train/setup/requests.h"

namespace babelring {

/// Ranks that train beside the recorded rank, in threads of this process, and so share its processors, caches
/// and memory as the ranks of a host do. Their gradients are not summed.
class Neighbours {
 public:
  /// Starts `count` trainings of `config` on `threads` CPU threads each and returns when all of them compute.
  Neighbours(const TrainConfig& config, int count, int threads);
  /// Ends them.
  ~Neighbours();
  Neighbours(const Neighbours&) = delete;
  Neighbours& operator=(const Neighbours&) = delete;

  /// Ends them, if that has not happened, and throws what one of them has thrown.
  void finish();

 private:
  void end();

  struct One {
    std::thread thread;
    std::exception_ptr failure;
  };
  StopRequest stop_;
  std::vector<std::unique_ptr<One>> all_;
};

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
