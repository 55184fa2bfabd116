#include "nmt/lab/record/record_run.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <filesystem>

#include "base/clock.h"
#include "base/span_log.h"
#include "base/version.h"
#include "insight/predict/quantiles.h"
#include "nmt/data/manifest.h"
#include "nmt/data/text_source.h"
#include "nmt/data/vocabulary.h"
#include "nmt/lab/probe/probe_environment.h"
#include "nmt/lab/record/rank_recorder.h"
#include "nmt/train/trainer.h"

namespace babelring {

namespace {

/// Records of a run that nobody reads.
class NoRecords final : public RecordSink {
 public:
  void write(RecordBody) override {}
};

/// The training of one size: `updates` updates after the warm-up, and nothing else.
TrainConfig config_of_size(const RecordPlan& plan, double factor) {
  TrainConfig config = plan.config;
  const double tokens = std::round(static_cast<double>(config.data.tokens_per_update) * factor);
  config.data.tokens_per_update = std::max<std::int64_t>(1, static_cast<std::int64_t>(tokens));
  config.training.stop_after =
      Interval::parse(fmt::format("{}u", plan.updates + RankRecorder::warm_up_updates)).value();
  config.training.max_minutes = 0;
  config.training.start_from.clear();
  config.training.digest_every = "0u";
  config.checkpoint.every = "0u";
  config.lab = {};
  return config;
}

/// What the updates of all sizes gave.
struct Recorded {
  std::vector<RecordedSize> sizes;
  std::vector<std::int64_t> parameter_counts;
  std::vector<double> make_batch_ms;  // of the size 1
};

void train_size(const RecordPlan& plan, double factor, const Corpus& corpus, std::int64_t vocabulary, Backend& backend,
                Recorded& recorded) {
  const TrainConfig config = config_of_size(plan, factor);
  const auto communicator = make_single_communicator();
  TextSource source(corpus, config.plan_options());
  NoRecords nowhere;
  RankRecorder recorder;
  SpanLog spans;
  spans.record(true);
  const StopRequest stop;
  Trainer trainer({.config = config,
                   .backend = backend,
                   .communicator = *communicator,
                   .source = source,
                   .records = nowhere,
                   .stop = stop,
                   .spans = &spans,
                   .lab = &recorder,
                   .threads = std::max(1, plan.threads),
                   .model_vocabulary = vocabulary});
  trainer.begin("r_00000000000000000000000000", 1);
  trainer.run();
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

insight::RankRecord record_rank(const RecordPlan& plan, Backend& backend) {
  const auto own_size = std::ranges::find(plan.sizes, 1.0);
  if (own_size == plan.sizes.end()) {
    throw UsageFailure(fmt::format("sizes: found {}, expected 1 among them", fmt::join(plan.sizes, ", ")));
  }
  const DataConfig& data = plan.config.data;
  const Manifest manifest = load_manifest(data.folder);
  const std::int64_t vocabulary =
      Vocabulary::load(std::filesystem::path(data.folder) / manifest.vocabulary.name).size();
  const Corpus corpus = Corpus::open(manifest, data.train_set);
  Recorded recorded;
  for (const double factor : plan.sizes) train_size(plan, factor, corpus, vocabulary, backend, recorded);
  std::int64_t parameters = 0;
  for (const std::int64_t count : recorded.parameter_counts) parameters += count;
  const auto communicator = make_single_communicator();
  const std::int64_t bucket_bytes = plan.config.communication.bucket_bytes(4 * parameters, *communicator, false);
  insight::RankRecord record = rank_record_of(recorded.sizes, static_cast<std::size_t>(own_size - plan.sizes.begin()),
                                              recorded.parameter_counts, static_cast<double>(bucket_bytes) * 1e-6);
  record.model = plan.config.name.empty() ? "model" : plan.config.name;
  record.machine = backend.host_memory() ? processor_model() : backend.description();
  record.version = version;
  record.date = format_rfc3339(wall_time_ms());
  record.threads = std::max(1, plan.threads);
  record.make_batch_ms = std::move(recorded.make_batch_ms);
  return record;
}

}  // namespace babelring
