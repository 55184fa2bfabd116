#include "lab/record/record_run.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <filesystem>
#include <latch>
#include <utility>

#include "base/clock.h"
#include "base/span_log.h"
#include "base/version.h"
#include "insight/predict/fits.h"
#include "lab/probe/run_probe.h"
#include "lab/record/rank_recorder.h"
#include "nmt/core/machine.h"
#include "nmt/train/setup/task_data.h"
#include "nmt/train/trainer.h"

namespace babelring {
namespace {

/// Counts down at the first record.
class FirstUpdate final : public RecordSink {
 public:
  explicit FirstUpdate(std::latch& begun) : begun_(begun) {}
  ~FirstUpdate() override { count_down(); }
  void write(RecordBody) override { count_down(); }

 private:
  void count_down() {
    if (!std::exchange(counted_, true)) begun_.count_down();
  }
  std::latch& begun_;
  bool counted_ = false;
};

void train_until(const StopRequest& stop, TrainConfig config, int threads, std::latch& begun) {
  FirstUpdate records(begun);
  config.training.stop_after = "1000000000u";
  const auto backend = make_cpu_backend(threads);
  const auto communicator = make_single_communicator();
  const TaskData data = open_task_data(config);
  Trainer trainer({.config = config,
                   .backend = *backend,
                   .communicator = *communicator,
                   .source = *data.source,
                   .records = records,
                   .stop = stop,
                   .threads = threads,
                   .model_vocabulary = data.model_vocabulary});
  trainer.begin("r_00000000000000000000000000", 1);
  trainer.run();
}

}  // namespace

Neighbours::Neighbours(const TrainConfig& config, int count, int threads) {
  const auto begun = std::make_shared<std::latch>(count);
  for (int i = 0; i < count; ++i) {
    One& one = *all_.emplace_back(std::make_unique<One>());
    one.thread = std::thread([this, config, threads, begun, &one] {
      try {
        train_until(stop_, config, threads, *begun);
      } catch (...) {
        one.failure = std::current_exception();
      }
    });
  }
  begun->wait();
}

Neighbours::~Neighbours() {
  end();
}

void Neighbours::end() {
  stop_.request();
  for (const auto& one : all_) {
    if (one->thread.joinable()) one->thread.join();
  }
}

void Neighbours::finish() {
  end();
  for (const auto& one : all_) {
    if (one->failure) std::rethrow_exception(one->failure);
  }
}

namespace {

/// Records of a run that nobody reads.
class NoRecords final : public RecordSink {
 public:
  void write(RecordBody) override {}
};

/// Multiplies the size of an update. Throws UsageFailure if less than one sequence is left.
void scale_update(TrainConfig& config, double factor) {
  const auto scaled = [factor](std::int64_t size) {
    return static_cast<std::int64_t>(std::round(static_cast<double>(size) * factor));
  };
  DataConfig& data = config.data;
  if (config.task == Task::translation) {
    data.tokens_per_update = std::max<std::int64_t>(1, scaled(data.tokens_per_update));
    return;
  }
  require_sequences_per_update(config);
  if (factor * static_cast<double>(data.sequences_per_update) < 1) {
    throw UsageFailure(fmt::format("sizes: {} times data.sequences_per_update, {}, is less than one sequence", factor,
                                   data.sequences_per_update));
  }
  data.sequences_per_update = scaled(data.sequences_per_update);
}

/// The training of one size: `updates` updates after the warm-up, and nothing else.
TrainConfig config_of_size(const RecordPlan& plan, double factor) {
  TrainConfig config = with_generator_of_folder(plan.config);
  scale_update(config, factor);
  config.data.valid_set.clear();
  config.training.stop_after =
      Interval::parse(fmt::format("{}u", plan.updates + RankRecorder::warm_up_updates)).value();
  config.training.max_minutes = 0;
  config.training.start_from.clear();
  config.training.digest_every = "0u";
  config.checkpoint.every = "0u";
  config.lab = {};
  return config;
}

/// Results of the updates of all sizes.
struct Recorded {
  std::vector<RecordedSize> sizes;
  std::vector<std::int64_t> parameter_counts;
  std::vector<double> make_batch_ms;  // of the size 1
};

void train_size(const RecordPlan& plan, double factor, Backend& backend, Recorded& recorded) {
  const TrainConfig config = config_of_size(plan, factor);
  const auto communicator = make_single_communicator();
  const TaskData data = open_task_data(config);
  NoRecords nowhere;
  RankRecorder recorder;
  SpanLog spans;
  spans.record(true);
  const StopRequest stop;
  Trainer trainer({.config = config,
                   .backend = backend,
                   .communicator = *communicator,
                   .source = *data.source,
                   .records = nowhere,
                   .stop = stop,
                   .spans = &spans,
                   .lab = &recorder,
                   .threads = std::max(1, plan.threads),
                   .model_vocabulary = data.model_vocabulary});
  trainer.begin("r_00000000000000000000000000", 1);
  Neighbours neighbours(config, plan.neighbours, std::max(1, plan.threads));
  trainer.run();
  neighbours.finish();
  std::vector<double> tokens;
  for (const RecordedUpdate& update : recorder.updates()) tokens.push_back(update.target_tokens);
  recorded.sizes.push_back({insight::quantiles_of(std::move(tokens)).median, recorder.updates()});
  recorded.parameter_counts = recorder.parameter_counts();
  if (factor != 1) return;
  for (const LoggedSpan& span : spans.take()) {
    if (span.category != "batch") continue;
    recorded.make_batch_ms.push_back(std::chrono::duration<double, std::milli>(span.end - span.begin).count());
  }
}

}  // namespace

insight::RecordedModel recorded_model(const TrainConfig& config, std::int64_t parameters) {
  return {.parameters = parameters,
          .task = word_of(tasks(), config.task),
          .precision = std::string(name_of(config.training.precision))};
}

void describe_origin(insight::RankRecord& record, const TrainConfig& config, const Backend& backend) {
  record.model = config.name.empty() ? "model" : config.name;
  insight::RecordedModel recorded = recorded_model(config, record.parameters);
  record.task = std::move(recorded.task);
  record.precision = std::move(recorded.precision);
  record.machine = backend.host_memory() ? processor_model() : backend.description();
  record.version = version;
  record.date = format_rfc3339(wall_time_ms());
}

insight::RankRecord record_rank(const RecordPlan& plan, Backend& backend) {
  const auto own_size = std::ranges::find(plan.sizes, 1.0);
  if (own_size == plan.sizes.end()) {
    throw UsageFailure(fmt::format("sizes: found {}, expected 1 among them", fmt::join(plan.sizes, ", ")));
  }
  Recorded recorded;
  for (const double factor : plan.sizes) train_size(plan, factor, backend, recorded);
  std::int64_t parameters = 0;
  for (const std::int64_t count : recorded.parameter_counts) parameters += count;
  const auto communicator = make_single_communicator();
  const std::int64_t bucket_bytes = plan.config.communication.bucket_bytes(4 * parameters, *communicator, false);
  insight::RankRecord record = rank_record_of(recorded.sizes, static_cast<std::size_t>(own_size - plan.sizes.begin()),
                                              recorded.parameter_counts, static_cast<double>(bucket_bytes) * 1e-6);
  describe_origin(record, plan.config, backend);
  record.threads = std::max(1, plan.threads);
  record.neighbours = plan.neighbours;
  record.processors = own_processors().count();
  record.make_batch_ms = std::move(recorded.make_batch_ms);
  return record;
}

}  // namespace babelring
