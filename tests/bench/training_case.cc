#include "tests/bench/training_case.h"

#include <algorithm>
#include <cmath>
#include <fstream>
#include <optional>

#include "base/failure.h"
#include "base/json.h"
#include "lab/memory/memory_trace.h"
#include "nmt/data/manifest.h"
#include "nmt/parallel/device.h"
#include "nmt/train/setup/memory_plan.h"

namespace babelring {

namespace {

std::int64_t vocabulary_of(const TrainingCaseOptions& options) {
  return options.data_folder.empty() ? options.random.vocabulary : load_manifest(options.data_folder).vocabulary_size;
}

json::array to_array(const std::vector<std::int32_t>& values) {
  return json::array(values.begin(), values.end());
}

/// Traces the memory inside every update, and keeps no report.
class MemoryOfEachUpdate final : public UpdateObserver {
 public:
  OpObserver* begin(const UpdateStart& start) override {
    return &trace_.emplace(start.replica.model.parameters(), start.replica.arenas);
  }
  void end(const StepRecord&) override {
    MemoryReport report;
    trace_->fill(report);
  }

 private:
  std::optional<MemoryTrace> trace_;
};

}  // namespace

TrainConfig train_config(const TrainingCaseOptions& options) {
  TrainConfig config;
  config.name = "bench";
  const bool modern = options.preset.starts_with("modern-");
  config.preset = modern ? options.preset : "transformer-" + options.preset;
  const ModelConfig preset = config.model = model_preset(config.preset);
  OptionBinder keys;
  config.bind(keys);
  for (const auto& [key, word] : {std::pair("model.norm", options.norm),
                                  {"model.activation", options.activation},
                                  {"model.tied_embeddings", options.tied_embeddings},
                                  {"training.precision", options.precision},
                                  {"training.device", options.device},
                                  {"communication.all_reduce", options.all_reduce},
                                  {"communication.gradient_wire", options.gradient_wire},
                                  {"communication.optimizer", options.optimizer}}) {
    apply_override(keys, fmt::format("{}={}", key, word));
  }
  if (options.dropout >= 0) config.model.dropout = options.dropout;
  config.model.attention_dropout = options.attention_dropout;
  config.model.activation_dropout = options.activation_dropout;
  config.model.attention_bias = options.attention_bias;
  if (modern) {
    config.model.norm = preset.norm;
    config.model.activation = preset.activation;
    config.model.attention_bias = preset.attention_bias;
  }
  config.data.folder = options.data_folder.empty() ? "random" : options.data_folder;
  config.data.train_set = options.data_set;
  config.data.tokens_per_update = options.tokens_per_update;
  config.data.micro_batch_tokens = options.micro_batch_tokens;
  config.training.threads = options.threads;
  config.training.cuda_graphs = options.cuda_graphs;
  config.communication.bucket_mb = options.bucket_mb;
  if (options.lab == "parameters") config.lab.parameters.window = "1000000000u";     // counts, and never writes
  if (options.lab == "timeline") config.lab.trace = {.start = "1u", .updates = 20};  // goes on: nothing ends the trace
  // Vaswani et al. 2017, eq. 3, with the default warm-up of 4,000 updates.
  config.optimizer.schedule.learning_rate = 1 / std::sqrt(4000 * static_cast<double>(config.model.width));
  config.check();
  return config;
}

void write_batches(const TrainingCaseOptions& options, int updates, const std::string& file) {
  std::unique_ptr<Corpus> corpus;
  std::unique_ptr<TextSource> source;
  if (!options.data_folder.empty()) {
    corpus = std::make_unique<Corpus>(Corpus::open(options.data_folder, options.data_set));
    source = std::make_unique<TextSource>(*corpus, PlanOptions{.tokens_per_update = options.tokens_per_update});
  }
  std::ofstream out(file);
  DataPosition position;
  for (int update = 1; update <= updates; ++update) {
    const UpdateBatches batches = source ? source->make(update, position, {}) : random_update(options.random, 0, 1);
    position = batches.next;
    const PackedBatch& batch = batches.micro_batches.at(0);
    out << to_text(json::object{{"vocabulary", vocabulary_of(options)},
                                {"source", to_array(batch.source.ids)},
                                {"source_offsets", to_array(batch.source.offsets)},
                                {"target_in", to_array(batch.target_in.ids)},
                                {"target_out", to_array(batch.target_out)},
                                {"target_offsets", to_array(batch.target_in.offsets)}})
        << "\n";
  }
  if (!out.flush()) fail("write batches: {} cannot be written", file);
}

TrainingCase::TrainingCase(const TrainingCaseOptions& options, Communicator& communicator)
    : config_(train_config(options)),
      communicator_(communicator),
      device_(choose_backend(config_.training.device, options.threads, communicator)),
      replica_(config_, vocabulary_of(options), *device_.backend, communicator),
      runner_(config_, replica_),
      meter_(communicator.local_rank() == 0, device_.backend->host_memory() ? options.threads : 0),
      gpu_meter_(options.gpu_meter && device_.gpu ? make_gpu_meter(*device_.gpu) : nullptr),
      data_(make_data(options)),
      lab_(make_lab(
          {.config = config_, .folder = "lab", .corpus = "", .run = "", .records = no_records_, .spans = spans_})) {
  if (options.lab == "ledger") lab_->add(std::make_unique<MemoryOfEachUpdate>());
  if (config_.training.tune_products)
    device_.backend->tune_matmuls(communicator.rank() == 0 ? options.matmuls_file : "").value();
  if (source_ != nullptr && !device_.backend->host_memory()) {
    replica_.arenas.reserve(
        plan_memory(config_, source_->shape(), replica_.model, *device_.backend, communicator).need);
  }
  replica_.initialize(static_cast<std::uint64_t>(config_.training.seed));
}

std::unique_ptr<BatchPipeline> TrainingCase::make_data(const TrainingCaseOptions& options) {
  const int rank = communicator_.rank(), ranks = communicator_.size();
  if (options.data_folder.empty()) {
    return std::make_unique<BatchPipeline>(
        [batches = random_update(options.random, rank, ranks)](std::int64_t update) mutable {
          batches.update = update;
          return batches;
        },
        1, config_.data.prefetch);
  }
  corpus_ = std::make_unique<Corpus>(Corpus::open(options.data_folder, options.data_set));
  source_ = std::make_unique<TextSource>(*corpus_, PlanOptions{.tokens_per_update = options.tokens_per_update});
  return std::make_unique<BatchPipeline>(
      *source_,
      PipelineOptions{.part = {.rank = rank, .world = ranks, .micro_batch_tokens = options.micro_batch_tokens},
                      .prefetch = config_.data.prefetch});
}

TimedUpdate TrainingCase::update(RecordSink* records) {
  TimedUpdate timed;
  const Stopwatch watch;
  ObservedUpdate observed(lab_.get(), {.update = done_.update + 1, .replica = replica_});
  const UpdateResult result = runner_.run(*data_, done_, {}, 1);
  observed.end(result.record);
  done_ = result.progress;
  timed.record = result.record;
  if (gpu_meter_ != nullptr) gpu_meter_->fill(timed.record);
  if (records != nullptr) {
    const Stopwatch report;
    meter_.fill(timed.record, replica_.backend.ledger());
    records->write(timed.record);
    timed.report_ms = report.elapsed_ms();
  }
  timed.wall_ms = watch.elapsed_ms();
  timed.source_tokens = result.source_tokens;
  timed.target_tokens = result.record.update_target_tokens;
  timed.unavoidable_bytes = unavoidable_bytes(result.record);
  return timed;
}

double TrainingCase::unavoidable_bytes(const StepRecord& update) const {
  const ModelConfig& model = config_.model;
  const auto element = static_cast<double>(size_of(precision()));
  const auto parameters = static_cast<double>(replica_.model.parameters().count());
  const auto width = static_cast<double>(model.width), inner = static_cast<double>(model.inner);
  const auto source = static_cast<double>(update.source_tokens), target = static_cast<double>(update.target_tokens);
  const double share = replica_.sharding.shares_copy() ? 1 / static_cast<double>(communicator_.local_size()) : 1;
  // Master and both moments: read and written by who updates them; gradient: written by backward, read for the update.
  double bytes = parameters * (share * (8 + 16) + 8);
  // The copy for matmuls: written by Adam, read by the next update.
  if (precision() == DType::bf16) bytes += parameters * (share + 1) * element;
  // Values that backward reads from forward: the inputs of matmuls, written once and read once.
  const double encoder = source * (6 * width + inner);
  const double decoder = target * (9 * width + inner) + source * 2 * width;
  return bytes + 2 * element * (model.encoder_layers * encoder + model.decoder_layers * decoder);
}

}  // namespace babelring
