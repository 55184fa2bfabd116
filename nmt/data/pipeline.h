#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <vector>

#include "nmt/core/packed_batch.h"
#include "nmt/data/plan.h"

namespace babelring {

/// Everything one rank needs for one update.
struct UpdateBatches {
  std::int64_t update = 0;
  DataPosition next;                      // of the data, after this update
  double epoch = 0;                       // passes over the corpus once this update is done
  std::int64_t global_sentences = 0;      // over all ranks
  std::int64_t global_source_tokens = 0;  // over all ranks, with </s>
  std::int64_t global_target_tokens = 0;  // over all ranks, with </s>: what losses and gradients are divided by
  std::int64_t sentences = 0;             // this rank's share
  std::int64_t source_tokens = 0, target_tokens = 0;
  std::vector<PackedBatch> micro_batches;  // equally many on every rank; one may be empty
};

struct PipelineOptions {
  int rank = 0;
  int world = 1;
  std::int64_t micro_batch_tokens = 0;  // most source or target tokens of one micro-batch; 0: one micro-batch
  DataPosition start = {};              // of the data: the whole state of resuming
  std::int64_t first_update = 1;        // its number
  int prefetch = 4;                     // updates prepared ahead, at least 1
};

/// The batches of the update that begins at `start`, computed here and now; `update` is its number. What Pipeline
/// prefetches; pure.
UpdateBatches make_update(const Plan& plan, const PipelineOptions& options, const DataPosition& start,
                          std::int64_t update);

/// Prepares the coming updates in a thread of its own. next() is for one thread.
class Pipeline {
 public:
  /// The updates of a plan over its corpus, from options.start on; both must outlive the pipeline. Throws Failure if an
  /// option is out of range.
  Pipeline(const Plan& plan, const PipelineOptions& options);
  /// Updates made by `make`, called in the thread with first_update, first_update + 1, …: for data generated on the
  /// fly.
  Pipeline(std::function<UpdateBatches(std::int64_t update)> make, std::int64_t first_update, int prefetch);
  /// Stops the thread and waits for it, at any moment.
  ~Pipeline();

  /// The next update, in order from first_update; waits until it is ready. Rethrows what the thread threw, then and on
  /// every later call.
  UpdateBatches next();

 private:
  class Worker;
  std::unique_ptr<Worker> worker_;
};

}  // namespace babelring
