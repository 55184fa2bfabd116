#include "worker/job.h"

#include <spdlog/spdlog.h>
#include <unistd.h>

#include <algorithm>
#include <functional>
#include <memory>
#include <optional>

#include "base/files.h"
#include "base/options/program.h"
#include "base/options/usage.h"
#include "base/version.h"
#include "client/server_access.h"
#include "lab/tools/lab.h"
#include "nmt/checkpoint/checkpoint.h"
#include "nmt/comm/rank_results.h"
#include "nmt/comm/shared/comm_memory.h"
#include "nmt/data/manifest.h"
#include "nmt/ops/backend.h"
#include "nmt/ops/cpu/peaks.h"
#include "nmt/parallel/device.h"
#include "nmt/train/pair_losses.h"
#include "nmt/train/sequences_plan.h"
#include "nmt/train/setup/memory_plan.h"
#include "nmt/train/setup/own_libraries.h"
#include "nmt/train/setup/task_data.h"
#include "nmt/train/trainer.h"
#include "worker/console.h"
#include "worker/emulation.h"
#include "worker/heartbeat.h"
#include "worker/progress_meter.h"
#include "worker/rank_agreement.h"
#include "worker/rank_threads.h"
#include "worker/record_fanout.h"
#include "worker/reporter.h"
#include "worker/run_folder.h"
#include "worker/run_report.h"
#include "worker/tensorboard.h"
#include "worker/terminal.h"

namespace babelring {
namespace {

/// Ends the process without cleanup, because a fenced attempt must not write anything.
void end_fenced(const std::string& why) {
  spdlog::error("this attempt is over: {}", why);
  abort_mpi(1);
}

/// Requests that rank 0 gets from the server.
struct ServerRequests {
  CheckpointRequest checkpoint;
  TraceRequest trace;
};

/// Null without a server. Collective with one.
std::unique_ptr<Heartbeat> start_heartbeat(const JobOptions& options, const std::filesystem::path& folder,
                                           const RankIdentity& identity, HeartbeatCommands orders,
                                           const GpuMeter* gpu_meter, const RecordSender& sender,
                                           Communicator& communicator) {
  if (options.server.address.empty()) return nullptr;
  std::function<GpuReading()> gpu;
  if (gpu_meter != nullptr) gpu = [gpu_meter] { return gpu_meter->newest(); };
  return std::make_unique<Heartbeat>(
      HeartbeatOptions{.server = options.server, .identity = identity, .folder = folder, .gpu = std::move(gpu)},
      std::move(orders), make_heartbeat_relay(communicator, sender));
}

ReporterOptions reporter_options(const JobOptions& options, const std::filesystem::path& folder,
                                 const RankIdentity& identity, const RecordSender& sender, SpanLog& spans) {
  const bool confirmed = !options.server.address.empty();
  return {.server = options.server,
          .identity = identity,
          .spool_folder = folder / "spool",
          .spool_limits = {.max_bytes = confirmed ? options.max_spool_mb << 20 : 0},
          .sender = sender,
          .spans = &spans};
}

/// The configured compute device. Throws if the configuration asks for bf16 and the device cannot compute it.
ChosenBackend open_device(const TrainConfig& config, std::int64_t vocabulary, int threads, Communicator& communicator) {
  if (config.emulated()) return {open_emulated_backend(config, vocabulary, communicator), Error{"it is emulated"}};
  ChosenBackend chosen = choose_backend(config.training.device, threads, communicator);
  if (config.training.precision == DType::bf16) require_matmul(*chosen.backend, DType::bf16, "training.precision=f32");
  return chosen;
}

/// `gpu`: the GPU of rank 0, or why none is used.
void log_ranks(const TrainConfig& config, const RankIdentity& identity, const Communicator& communicator,
               const std::string& gradient_comm, const Result<std::string>& gpu) {
  spdlog::info("run {} attempt {}: {} rank{} on {}, {}", identity.run, identity.attempt, communicator.size(),
               communicator.size() == 1 ? "" : "s", fmt::join(communicator.hosts(), ", "), communicator.description());
  spdlog::info("libraries: {}", text_of(own_libraries()));
  if (!gradient_comm.empty()) spdlog::info("gradients: {}", gradient_comm);
  if (config.training.device == DeviceChoice::automatic && !gpu) spdlog::info("no GPU is used: {}", gpu.error());
}

void log_start(const TrainConfig& config, const Backend& backend, const TaskData& data, const Trainer& trainer) {
  spdlog::info("{}: {} parameters, {}", backend.description(), trainer.model().parameters().count(), data.size);
  const ScheduleOptions& schedule = config.optimizer.schedule;
  const std::int64_t updates = data.source->updates_per_epoch();
  const Progress per_update{.update = 1,
                            .epoch = updates > 0 ? 1 / static_cast<double>(updates) : 0,
                            .target_tokens = config.target_tokens_per_update()};
  const TrainingConfig& training = config.training;
  for (const std::string& warning :
       {schedule.unfinished_warm_up(training.stop_after),
        schedule.zero_rate_at_end(training.stop_after, trainer.state().progress, per_update, training.max_minutes)}) {
    if (!warning.empty()) spdlog::warn("{}", warning);
  }
}

/// The choices are stored in the run's folder. A resumed run reuses them, since other algorithms round differently.
void tune_matmuls(const TrainConfig& config, const std::filesystem::path& folder, int rank, Backend& backend) {
  if (!config.training.tune_products || config.training.by_units()) return;  // ranks would choose by different times
  const Status stored = backend.tune_matmuls(folder / fmt::format("products-rank-{}.jsonl", rank));
  if (!stored) spdlog::warn("{}", stored.error());
}

LifecycleRecord started(const TrainConfig& config, const json::object& labels, const Communicator& communicator,
                        const Trainer& trainer, const ProgressMeter& progress) {
  const Interval& end = config.training.stop_after;
  return {.event = "started",
          .detail = trainer.state().progress.update > 0
                        ? fmt::format("resumed after update {}", trainer.state().progress.update)
                    : config.training.start_from.empty() ? "from the beginning"
                                                         : "with the weights of " + config.training.start_from,
          .name = config.name,
          .config = config_yaml(config),
          .version = version,
          .world_size = communicator.size(),
          .pid = getpid(),
          .parameters = trainer.model().parameters().count(),
          .max_updates = end.unit() == Interval::Unit::updates ? static_cast<std::int64_t>(end.value()) : 0,
          .device = config.emulated() ? "emulated" : "",
          .end = progress.end(),
          .may_end_sooner = config.validation.patience > 0 && !config.data.valid_set.empty(),
          .data = config.on_the_fly() ? json::value()
                                      : training_set_facts(load_manifest(config.data.folder), config.data.train_set),
          .bucket_mb = static_cast<double>(trainer.bucket_bytes()) * 1e-6,
          .optimizer = trainer.shards_optimizer() ? "sharded" : "replicated",
          .labels = labels.empty() ? json::value() : json::value(labels)};
}

/// Measures the peaks of the device, as all ranks do at this moment. An emulated one has none.
LifecycleRecord rank_up(const TrainConfig& config, Backend& backend, int threads) {
  PeakRates peaks;
  if (!config.emulated()) peaks = measure_peak_rates(backend, config.training.precision, threads);
  return {.event = "rank_up",
          .pid = getpid(),
          .device = backend.description(),
          .peak_flops = peaks.flops,
          .peak_bytes_per_second = peaks.bytes_per_second,
          .libraries = to_json(own_libraries())};
}

/// Trains, and records how the run ended. `opened` is the run's folder on rank 0, else null.
void train(Trainer& trainer, RecordSink& records, const RunFolder* opened) {
  const auto record_end = [&](const char* event, const std::string& detail) {
    if (opened != nullptr || std::string_view(event) == "failed") {
      records.write(LifecycleRecord{.event = event, .detail = detail});
    }
    if (opened != nullptr) opened->note_end(event, detail);
  };
  try {
    const TrainingEnd end = trainer.run();
    if (opened != nullptr) spdlog::info("{}", end.text);
    record_end(end.reason == EndReason::stopped_on_request ? "stopped" : "finished", end.text);
  } catch (const std::exception& failure) {
    record_end("failed", reason(failure));
    throw;
  }
}

/// The check of this host's data, on its first rank; null on other ranks.
std::unique_ptr<DataCheck> open_data_check(const TrainConfig& config, Communicator& communicator) {
  return on_every_rank(communicator,
                       [&] { return communicator.local_rank() == 0 ? make_data_check(config) : nullptr; });
}

GradientComm make_gradient_comm(const TrainConfig& config, std::int64_t vocabulary, Backend& backend,
                                Communicator& communicator) {
  if (config.training.by_units() && !backend.host_memory() && communicator.size() > 1) {
    return {.nccl = nullptr, .line = "through host memory, because NCCL does not add in pairs (training.reproducible)"};
  }
  const std::int64_t parameters = count_parameters(config.model, vocabulary);
  return choose_gradient_comm(config.communication, parameters * static_cast<std::int64_t>(sizeof(float)), backend,
                              communicator);
}

/// An absolute path: a host that lacks the working folder of rank 0 starts its ranks in another one.
std::filesystem::path folder_of_run(const JobOptions& options, const TrainConfig& config, Communicator& communicator) {
  const json::value folder = value_of_rank_0(communicator, [&]() -> json::value {
    const std::filesystem::path usual = std::filesystem::path("runs") / config.name;
    return json::string(named_folder(options.run_folder.empty() ? usual : options.run_folder).string());
  });
  return std::string(folder.as_string());
}

/// Opens the data. If a rank cannot, all ranks throw the same UsageFailure.
TaskData open_data(const TrainConfig& config, Communicator& communicator) {
  bool ended = false;
  const auto agree = [&](const std::string& error) {
    try {
      run_on_every_rank(communicator, [&error] {
        if (!error.empty()) throw UsageFailure(error);
      });
    } catch (...) {
      ended = true;
      throw;
    }
  };
  // The ranks of a host may have one plan, which is collective: all must be there.
  const PlanMemory memory = [&](std::size_t bytes, const std::string& key, const std::function<void(char*)>& prepare) {
    agree("");
    return share_on_host(communicator, bytes, key, prepare);
  };
  try {
    TaskData data = open_task_data(config, memory);
    agree("");
    return data;
  } catch (const CommError&) {
    throw;
  } catch (const Failure& failure) {
    if (!ended) agree(failure.what());
    throw;
  }
}

/// Resolves data.sequences_per_update: auto. A run that resumes keeps its number.
TrainConfig resolve_sequences(const JobOptions& options, const TrainConfig& given, const std::filesystem::path& folder,
                              Backend& backend, Communicator& communicator) {
  const std::int64_t stored =
      options.from_scratch ? DataConfig::automatic : stored_sequences(folder, options.resume_from, communicator);
  return with_sequences_that_fit(given, stored, backend, communicator);
}

/// The folder for TensorBoard event files; empty if none are written.
std::filesystem::path board_folder(const JobOptions& options, const TrainConfig& config,
                                   const std::filesystem::path& run_folder) {
  const bool asked = options.event_folder.empty() && config.tensorboard;
  return asked ? run_folder / "tensorboard" : options.event_folder;
}

/// Throws UsageFailure if the file cannot be read.
std::string read_user_file(const std::string& file) {
  if (const std::string error = existing_file(file); !error.empty()) throw UsageFailure("--config: " + error);
  try {
    return read_file(file);
  } catch (const Failure& failure) {
    throw UsageFailure(failure.what());
  }
}

/// All that an attempt needs, opened on all ranks.
struct AttemptParts {
  const JobOptions& options;
  const TrainConfig& config;
  const std::filesystem::path& folder;
  const RankIdentity& identity;
  int threads;
  Communicator& communicator;
  Communicator& ranks;  // of the gradients
  Backend& backend;
  GpuMeter* gpu_meter;  // null without a GPU
  const TaskData& data;
  DataCheck* data_check;    // null on ranks that are not the first of their host
  const RunFolder* opened;  // the run's folder on rank 0; null on other ranks
};

void run_attempt(const AttemptParts& parts, StopRequest& stop, LogRecords& log) {
  const JobOptions& options = parts.options;
  const TrainConfig& config = parts.config;
  const std::filesystem::path& folder = parts.folder;
  const RankIdentity& identity = parts.identity;
  const TaskData& data = parts.data;
  Communicator& communicator = parts.communicator;
  const bool first_rank = communicator.rank() == 0;
  ServerRequests requests;
  const HeartbeatCommands commands{stop, requests.checkpoint, requests.trace, end_fenced};
  const RecordSender sender = choose_record_sender(communicator, folder / "spool", identity.attempt);
  const auto heartbeat = start_heartbeat(options, folder, identity, commands, parts.gpu_meter, sender, communicator);
  SpanLog spans;
  const ReporterOptions reporting = reporter_options(options, folder, identity, sender, spans);
  const auto reporter = on_every_rank(communicator, [&] { return std::make_unique<Reporter>(reporting); });
  const LogRecords::Connection logged(log, *reporter);
  const auto console = first_rank ? std::make_unique<Console>(config, draws_progress(options.progress)) : nullptr;
  ProgressMeter progress(config.training.stop_after, config.training.max_minutes);
  RecordFanout records(progress, console.get(), *reporter, heartbeat.get());
  Checkpointer checkpoints(config, folder / "checkpoints", data.vocabulary_model(), parts.backend, parts.ranks, records,
                           [opened = parts.opened] { opened->require_current(); });
  const auto pair_losses = first_rank ? make_pair_losses(config, data, folder) : nullptr;
  const auto lab = make_lab({config, folder / "lab", data.source->digest(), identity.run, identity.rank, records, spans,
                             data.vocabulary_or_null(), first_rank ? &requests.trace : nullptr, parts.threads});
  Trainer trainer({.config = config,
                   .backend = parts.backend,
                   .communicator = parts.ranks,
                   .source = *data.source,
                   .vocabulary = config.emulated() ? nullptr : data.vocabulary_or_null(),
                   .held_out = config.emulated() ? nullptr : data.held_out.get(),
                   .train_sample = data.train_sample.get(),
                   .checkpoints = config.emulated() ? nullptr : &checkpoints,
                   .records = records,
                   .stop = stop,
                   .checkpoint_request = first_rank ? &requests.checkpoint : nullptr,
                   .gpu_meter = parts.gpu_meter,
                   .spans = &spans,
                   .lab = lab.get(),
                   .pair_losses = pair_losses.get(),
                   .data_check = parts.data_check,
                   .threads = parts.threads,
                   .model_vocabulary = data.model_vocabulary,
                   .source_lines = data.source_lines});
  if (config.lab.emulated.balloon) fill_balloon(trainer.replica());
  if (options.from_scratch) run_on_rank_0(communicator, [&checkpoints] { checkpoints.move_all_aside(); });
  trainer.begin(
      identity.run, identity.attempt,
      {.from = options.resume_from, .accept_changes = options.accept_changes, .expected = options.expect_checkpoint});
  records.begin(trainer.state());
  run_on_rank_0(communicator, [&] {
    write_file_atomically(folder / "config.yaml", config_yaml(config));
    records.open_board(board_folder(options, config, folder), communicator.hosts()[0], trainer.state().progress.update);
    log_start(config, parts.backend, data, trainer);
    records.write(started(config, options.labels, communicator, trainer, progress));
  });
  records.write(rank_up(config, parts.backend, parts.threads));
  train(trainer, records, parts.opened);
  end_together(communicator, *reporter, folder);
}

}  // namespace

TrainConfig shared_config(const JobOptions& options, Communicator& communicator) {
  const json::value yaml = value_of_rank_0(communicator, [&options]() -> json::value {
    const std::string text = read_user_file(options.config_file);
    const TrainConfig config = read_config(text, options.config_file, options.overrides);
    try {
      return json::string(config_yaml(with_generator_of_folder(config)));
    } catch (const Failure& failure) {  // also if data.folder cannot be read
      throw UsageFailure(failure.what());
    }
  });
  return read_config(std::string(yaml.as_string()), "configuration of rank 0", {});
}

std::string shared_token(const JobOptions& options, Communicator& communicator) {
  if (options.server.address.empty()) return "";
  const json::value token = value_of_rank_0(communicator, [&options]() -> json::value {
    static_cast<void>(parse_server_address(options.server.address));  // validate before anything is created
    return json::string(find_token(options.token_file));
  });
  return std::string(token.as_string());
}

void check_server_access(const JobOptions& options, Communicator& communicator) {
  Result<json::value> own = json::value();
  if (!options.server.address.empty()) {
    try {
      const HttpClient client(options.server.address, client_options(options.server));
    } catch (const Failure& failure) {
      own = Error{failure.what()};
    }
  }
  if (communicator.size() == 1 && !own) throw UsageFailure(own.error());
  const Status status = first_error(communicator, gather_results(communicator, own));
  if (!status) throw UsageFailure(status.error());
}

void run_job(const JobOptions& options, const TrainConfig& given, Communicator& communicator, StopRequest& stop,
             LogRecords& log) {
  const int threads = choose_threads(given.training.threads, communicator);
  run_on_every_rank(communicator, [&given] { check_task_data(given); });
  const auto [backend, gpu] =
      on_every_rank(communicator, [&] { return open_device(given, model_vocabulary(given), threads, communicator); });
  const std::filesystem::path folder = folder_of_run(options, given, communicator);
  const TrainConfig config = resolve_sequences(options, given, folder, *backend, communicator);
  const TaskData data = open_data(config, communicator);
  require_room_for_model(config, data.model_vocabulary, *backend, communicator);
  const std::unique_ptr<DataCheck> data_check = open_data_check(config, communicator);
  const GradientComm gradient_comm = make_gradient_comm(config, data.model_vocabulary, *backend, communicator);
  Communicator& ranks = gradient_comm.nccl != nullptr ? *gradient_comm.nccl : communicator;
  // clang 14 captures no structured binding by itself.
  require_agreement(on_every_rank(communicator, [&config, &own = *backend] { return facts_of(config, own); }),
                    communicator);
  std::optional<RunFolder> opened;
  const RankIdentity identity = begin_attempt(options, folder, own_libraries(), communicator, opened);
  tune_matmuls(config, folder, communicator.rank(), *backend);
  if (communicator.rank() == 0) log_ranks(config, identity, communicator, gradient_comm.line, gpu);
  const std::unique_ptr<GpuMeter> gpu_meter = gpu ? make_gpu_meter(*gpu) : nullptr;
  run_attempt({options, config, folder, identity, threads, communicator, ranks, *backend, gpu_meter.get(), data,
               data_check.get(), opened ? &*opened : nullptr},
              stop, log);
}

}  // namespace babelring
