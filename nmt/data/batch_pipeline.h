#pragma once

#include <cstdint>
#include <functional>
#include <memory>

#include "base/span_log.h"
#include "nmt/data/update_source.h"

namespace babelring {

struct PipelineOptions {
  RankPart part;
  DataPosition start = {};        // data position of the first update; sufficient to resume
  std::int64_t first_update = 1;  // number of the first update
  int prefetch = 4;               // max updates prepared ahead, at least 1
  int threads = 1;                // that prepare updates
  SpanLog* spans = nullptr;       // gets the times in which batches are prepared; may be null
};

/// Prepares upcoming updates on background threads and delivers them in order.
/// next() must be called from one thread only.
class BatchPipeline {
 public:
  /// Delivers a source's updates from options.start on. The source must outlive
  /// the pipeline. Throws Failure if an option is out of range.
  BatchPipeline(const UpdateSource& source, const PipelineOptions& options);
  /// Delivers updates created by `make`, which a background thread calls with
  /// first_update, first_update + 1, ….
  BatchPipeline(std::function<UpdateBatches(std::int64_t update)> make, std::int64_t first_update, int prefetch);
  /// Stops the threads and joins them. Safe at any time.
  ~BatchPipeline();

  /// Returns the next update, in order from first_update; blocks until it is
  /// ready. If its preparation threw an exception, this and every later call
  /// rethrow it.
  UpdateBatches next();

 private:
  class Worker;
  struct Jobs {
    std::function<DataPosition()> claim;  // the start of the next update; one call at a time
    std::function<UpdateBatches(std::int64_t update, const DataPosition& start)> make;
  };
  BatchPipeline(Jobs jobs, std::int64_t first_update, int prefetch, int threads);

  std::unique_ptr<Worker> worker_;
};

}  // namespace babelring
