#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <vector>

#include "base/span_log.h"
#include "nmt/core/packed_batch.h"
#include "nmt/data/batch_plan.h"

namespace babelring {

/// One rank's data for one update.
struct UpdateBatches {
  std::int64_t update = 0;
  DataPosition next;                      // data position after this update
  double epoch = 0;                       // epochs completed after this update
  std::int64_t global_sentences = 0;      // over all ranks
  std::int64_t global_source_tokens = 0;  // over all ranks, with </s>
  std::int64_t global_target_tokens = 0;  // over all ranks, with </s>; divisor of losses and gradients
  std::int64_t sentences = 0;             // of this rank
  std::int64_t source_tokens = 0, target_tokens = 0;
  std::vector<PackedBatch> micro_batches;  // same number on every rank; some may be empty
};

struct PipelineOptions {
  int rank = 0;
  int world = 1;
  std::int64_t micro_batch_tokens = 0;  // max source or target tokens per micro-batch; 0: no limit, one micro-batch
  DataPosition start = {};              // data position of the first update; sufficient to resume
  std::int64_t first_update = 1;        // number of the first update
  int prefetch = 4;                     // max updates prepared ahead, at least 1
  SpanLog* spans = nullptr;             // gets the times in which batches are prepared; may be null
};

/// Computes the batches of the update that starts at `start`; `update` is its number. Synchronous and pure;
/// BatchPipeline calls it ahead of time.
UpdateBatches make_update(const BatchPlan& plan, const PipelineOptions& options, const DataPosition& start,
                          std::int64_t update);

/// Prepares upcoming updates on a background thread. next() must be called from one thread only.
class BatchPipeline {
 public:
  /// Delivers a plan's updates from options.start on. The plan and its corpus must outlive the pipeline. Throws Failure
  /// if an option is out of range.
  BatchPipeline(const BatchPlan& plan, const PipelineOptions& options);
  /// Delivers updates created by `make`, which the background thread calls with first_update, first_update + 1, …. For
  /// generated data.
  BatchPipeline(std::function<UpdateBatches(std::int64_t update)> make, std::int64_t first_update, int prefetch);
  /// Stops the thread and joins it. Safe at any time.
  ~BatchPipeline();

  /// Returns the next update, in order from first_update; blocks until it is ready. If the thread threw an exception,
  /// this and every later call rethrow it.
  UpdateBatches next();

 private:
  class Worker;
  std::unique_ptr<Worker> worker_;
};

}  // namespace babelring
