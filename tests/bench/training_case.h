#pragma once

#include <cstdint>
#include <memory>
#include <string>

#include "base/clock.h"
#include "lab/tools/lab.h"
#include "nmt/data/text_source.h"
#include "nmt/metering/gpu_meter.h"
#include "nmt/metering/host_meter.h"
#include "nmt/parallel/device.h"
#include "nmt/train/update/model_replica.h"
#include "nmt/train/update/update_runner.h"
#include "tests/bench/random_update.h"

namespace babelring {

/// A model and its training data.
struct TrainingCaseOptions {
  std::string preset = "base";      // of ModelConfig, without "transformer-"; modern presets keep norm and activation
  std::string precision = "bf16";   // or f32
  std::string norm = "post";        // or pre
  std::string activation = "relu";  // swish, gelu
  std::string device = "cpu";       // cuda, auto
  bool cuda_graphs = false;
  std::string matmuls_file;  // keeps what matmuls were computed by, as training.tune_products; empty: nothing does
  bool gpu_meter = false;    // read the GPU's figures meanwhile, as the worker does
  int threads = 2;           // of each rank
  double dropout = -1;       // on embeddings and sub-layer outputs; negative: the preset's
  double attention_dropout = 0, activation_dropout = 0;
  bool attention_bias = true;
  std::string tied_embeddings = "all";
  std::string all_reduce = "auto", gradient_wire = "f32", optimizer = "auto";  // of communication
  double bucket_mb = 4;
  RandomUpdateOptions random;
  std::string data_folder;  // of `nmt prepare`; empty: one random update, again and again
  std::string data_set = "train";
  std::int64_t tokens_per_update = 2048;  // target tokens, of prepared text
  std::int64_t micro_batch_tokens = 0;
  /// Tool of the lab that is on: "parameters", "timeline" with ops, or "ledger": the memory inside every update; empty:
  /// none. Nothing is written.
  std::string lab;
};

/// The configuration that `worker` would have.
TrainConfig train_config(const TrainingCaseOptions& options);

/// Writes what rank 0 of one is trained on, a line of JSON an update, for other programs to train on the same:
/// source, target_in, target_out (ids), source_offsets, target_offsets, and vocabulary (pieces).
void write_batches(const TrainingCaseOptions& options, int updates, const std::string& file);

/// One update as this rank saw it.
struct TimedUpdate {
  StepRecord record;
  double wall_ms = 0;  // data, update and reporting
  double report_ms = 0;
  std::int64_t source_tokens = 0, target_tokens = 0;  // over all ranks
  double unavoidable_bytes = 0;                       // that this rank must move; docs/performance.md derives them
};

/// A model with all that UpdateRunner needs, and its data, used as `worker` uses them.
class TrainingCase {
 public:
  /// `communicator` must outlive the case.
  TrainingCase(const TrainingCaseOptions& options, Communicator& communicator);

  /// One update with the Noam schedule (Vaswani et al. 2017, eq. 3, 4,000 updates of warm-up), its record written to
  /// `records` unless null; on every rank.
  TimedUpdate update(RecordSink* records = nullptr);

  Backend& backend() const { return *device_.backend; }
  const TrainConfig& config() const { return config_; }
  const Model& model() const { return replica_.model; }
  DType precision() const { return replica_.model.compute_dtype(); }

 private:
  std::unique_ptr<BatchPipeline> make_data(const TrainingCaseOptions& options);
  double unavoidable_bytes(const StepRecord& update) const;

  TrainConfig config_;
  Communicator& communicator_;
  ChosenBackend device_;
  std::unique_ptr<Corpus> corpus_;  // null: random
  std::unique_ptr<TextSource> source_;
  ModelReplica replica_;
  UpdateRunner runner_;
  HostMeter meter_;
  std::unique_ptr<GpuMeter> gpu_meter_;  // null: no GPU, or not wanted
  std::unique_ptr<BatchPipeline> data_;
  struct NoRecords : RecordSink {
    void write(RecordBody) override {}
  } no_records_;
  SpanLog spans_;
  std::unique_ptr<Lab> lab_;  // null: no tool is on
  Progress done_;
};

}  // namespace babelring
