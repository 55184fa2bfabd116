#include "worker/job.h"

#include <spdlog/spdlog.h>
#include <unistd.h>

#include <algorithm>
#include <memory>
#include <thread>

#include "nmt/base/atomic_file.h"
#include "nmt/base/version.h"
#include "nmt/data/corpus.h"
#include "nmt/data/manifest.h"
#include "nmt/data/vocabulary.h"
#include "nmt/train/precision.h"
#include "nmt/train/trainer.h"
#include "worker/console.h"
#include "worker/reporter.h"
#include "worker/run_folder.h"

namespace babelring {

namespace {

/// Writes each record to the console, if there is one, and to the reporter.
class FanOut : public RecordSink {
 public:
  FanOut(Console* console, RecordSink& reporter) : console_(console), reporter_(reporter) {}
  void write(RecordBody body) override {
    if (console_ != nullptr) console_->write(body);
    reporter_.write(std::move(body));
  }

 private:
  Console* console_;
  RecordSink& reporter_;
};

/// What rank 0 says about the run.
struct RunIdentity {
  std::string run;
  std::int64_t attempt = 1;
};

RunIdentity share_identity(const std::filesystem::path& folder, Communicator& communicator) {
  std::string text;
  if (communicator.rank() == 0) {
    const RunFolder opened(folder);
    text = fmt::format("{} {}", opened.run(), opened.attempt());
  }
  text = communicator.all_gather(text)[0];
  const std::size_t space = text.find(' ');
  return {.run = text.substr(0, space), .attempt = std::stoll(text.substr(space + 1))};
}

int threads_of(const TrainConfig& config, const Communicator& communicator) {
  if (config.training.threads > 0) return config.training.threads;
  const int processors = static_cast<int>(std::thread::hardware_concurrency());
  return std::max(1, processors / communicator.local_size());
}

LifecycleRecord started(const TrainConfig& config, const Communicator& communicator, const Trainer& trainer) {
  const Duration end = parse_duration("training.stop_after", config.training.stop_after);
  return {.event = "started",
          .detail = trainer.state().progress.update > 0
                        ? fmt::format("resumed after update {}", trainer.state().progress.update)
                        : "from the beginning",
          .name = config.name,
          .config = config_yaml(config),
          .version = version,
          .world_size = communicator.size(),
          .pid = getpid(),
          .parameters = trainer.model().parameters().count(),
          .max_updates = end.unit() == Duration::Unit::updates ? static_cast<std::int64_t>(end.value()) : 0};
}

/// Records how the run ended, whatever way it ends.
void train(Trainer& trainer, RecordSink& records, bool first_rank) {
  const auto tell = [&](const char* event, const std::string& detail) {
    if (first_rank || std::string_view(event) == "failed") {
      records.write(LifecycleRecord{.event = event, .detail = detail});
    }
  };
  try {
    const std::string reason = trainer.run();
    if (first_rank) spdlog::info("{}", reason);
    tell(reason == "stopped on request" ? "stopped" : "finished", reason);
  } catch (const std::exception& failure) {
    tell("failed", failure.what());
    throw;
  }
}

}  // namespace

TrainConfig shared_config(const JobOptions& options, Communicator& communicator) {
  std::string text;
  if (communicator.rank() == 0) {
    try {
      text = "+" + config_yaml(read_config(read_file(options.config_file), options.config_file, options.overrides));
    } catch (const Failure& failure) {
      text = std::string("-") + failure.what();
    }
  }
  text = communicator.all_gather(text)[0];
  if (text[0] == '-') throw UsageFailure(text.substr(1));
  return read_config(text.substr(1), "configuration of rank 0", {});
}

void run_job(const JobOptions& options, const TrainConfig& config, Communicator& communicator,
             const StopRequest& stop) {
  const bool first_rank = communicator.rank() == 0;
  const std::unique_ptr<Backend> backend = make_cpu_backend(threads_of(config, communicator));
  if (config.training.precision == "bf16") require_products(*backend, DType::bf16, "training.precision=f32");
  const std::filesystem::path folder =
      options.run_folder.empty() ? std::filesystem::path("runs") / config.name : options.run_folder;
  const RunIdentity identity = share_identity(folder, communicator);
  if (first_rank) {
    write_file_atomically(folder / "config.yaml", config_yaml(config));
    spdlog::info("run {} attempt {}: {} ranks on {}, {}", identity.run, identity.attempt, communicator.size(),
                 fmt::join(communicator.hosts(), ", "), communicator.description());
  }

  const std::filesystem::path data_folder = config.data.folder;
  const std::filesystem::path vocabulary_file = data_folder / load_manifest(data_folder).vocabulary.name;
  const Vocabulary vocabulary = Vocabulary::load(vocabulary_file);
  const Corpus corpus = Corpus::open(config.data.folder, config.data.train_set);

  Reporter reporter({.server = options.server,
                     .spool_folder = folder / "spool",
                     .run = identity.run,
                     .attempt = identity.attempt,
                     .rank = communicator.rank(),
                     .host = communicator.hosts()[static_cast<std::size_t>(communicator.rank())]});
  std::unique_ptr<Console> console;
  if (first_rank) console = std::make_unique<Console>(config, isatty(STDERR_FILENO) == 1);
  FanOut records(console.get(), reporter);

  CheckpointKeeper checkpoints(config, folder / "checkpoints", vocabulary_file, *backend, communicator, records);
  Trainer trainer({.config = config,
                   .backend = *backend,
                   .communicator = communicator,
                   .corpus = corpus,
                   .vocabulary = &vocabulary,
                   .checkpoints = &checkpoints,
                   .records = records,
                   .stop = stop,
                   .threads = threads_of(config, communicator),
                   .model_vocabulary = vocabulary.size()});
  trainer.begin(identity.run, identity.attempt);
  if (console != nullptr) console->begin(trainer.state().progress, trainer.state().elapsed_minutes);
  if (first_rank) {
    spdlog::info("{}: {} parameters, {} sentence pairs, {} updates an epoch", backend->description(),
                 trainer.model().parameters().count(), corpus.sentences(), trainer.updates_per_epoch());
    records.write(started(config, communicator, trainer));
  }
  records.write(LifecycleRecord{.event = "rank_up", .pid = getpid(), .device = backend->description()});
  train(trainer, records, first_rank);
  reporter.close(std::chrono::seconds(30));
}

}  // namespace babelring
