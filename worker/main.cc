#include <fmt/format.h>
#include <spdlog/spdlog.h>
#include <CLI/CLI.hpp>

#include <unistd.h>

#include <cstdlib>
#include <memory>
#include <optional>
#include <thread>

#include "base/compiled_instruction_sets.h"
#include "base/log.h"
#include "base/names.h"
#include "base/options/completion.h"
#include "base/options/man_page.h"
#include "base/options/options.h"
#include "base/options/program.h"
#include "base/options/usage.h"
#include "base/text.h"
#include "base/version.h"
#include "nmt/comm/communicator.h"
#include "nmt/comm/host_name.h"
#include "nmt/comm/mpi/session.h"
#include "nmt/comm/rank_results.h"
#include "nmt/train/setup/own_libraries.h"
#include "nmt/train/update/divergence.h"
#include "worker/config_check.h"
#include "worker/job.h"
#include "worker/rank_agreement.h"
#include "worker/run_folder.h"
#include "worker/signal_thread.h"
#include "worker/terminal.h"

namespace {

using namespace babelring;

/// Runs before all other constructors, which may use instructions that this processor lacks.
[[gnu::constructor(101)]] void check_processor() {
  require_instruction_sets(compiled_instruction_sets, "worker");
}

/// Logs the end of the process that started this rank. Open MPI then ends the rank about a second later without a
/// message. Standard error may be gone as well, but the line reaches the spool like the rest of the log.
void watch_launcher() {
  std::thread([launcher = getppid()] {
    while (getppid() == launcher) std::this_thread::sleep_for(std::chrono::milliseconds(100));
    spdlog::error(
        "process {}, which started this rank (mpirun or its daemon), is gone: this rank ends without a checkpoint",
        launcher);
  }).detach();
}

struct CommandLine {
  JobOptions job;
  std::string log_level = "info";
  bool check_config = false, check_data = false;
  std::int64_t check_ranks = 1;
};

void declare_for_servers(CLI::App& app, CommandLine& line) {
  constexpr const char* for_servers = "For servers that start runs";
  app.add_option("--run-id", line.job.run, "run id, set by a server that starts the run")->group(for_servers);
  app.add_option("--attempt", line.job.attempt, "attempt number, set together with --run-id")->group(for_servers);
  app.add_option("--resume-from", line.job.resume_from,
                 "checkpoint to resume from, or a run's folder to use its best; default the newest of the run")
      ->excludes("--from-scratch")
      ->group(for_servers);
  app.add_option("--expect-checkpoint", line.job.expect_checkpoint,
                 "end with exit code 2 unless the run's folder has a checkpoint of this update or a later one, so that "
                 "a folder that is not mounted is not taken for a new run")
      ->excludes("--from-scratch")
      ->excludes("--resume-from")
      ->check(CLI::NonNegativeNumber)
      ->group(for_servers);
  app.add_flag("--check-config", line.check_config, "print the resolved configuration as JSON and exit")
      ->group(for_servers);
  app.add_flag("--check-data", line.check_data, "with --check-config: also check data.folder")->group(for_servers);
  app.add_option("--check-ranks", line.check_ranks, "with --check-config: number of ranks to estimate memory for")
      ->check(CLI::Range(1, 1'000'000))
      ->group(for_servers);
}

void declare(CLI::App& app, CommandLine& line, const OptionBinder& keys) {
  set_help_form(app);
  app.set_version_flag("--version", std::string("worker ") + version, "print the version and exit");
  app.add_option("--config", line.job.config_file, "YAML file, read on rank 0 and sent to the other ranks")->required();
  app.add_option("overrides", line.job.overrides, "key=value, overrides the file: training.max_minutes=10");
  const auto set_server = [&line](const std::string& address) {
    line.job.server.address = address == "none" ? "" : address;
  };
  app.add_option_function<std::string>("--server", set_server,
                                       "address of a Babelring server, http://host:port, or none")
      ->default_str("none");
  app.add_option("--token-file", line.job.token_file,
                 "file with the server token, read on rank 0 and sent to the other ranks; default: BABELRING_TOKEN");
  const auto set_labels = [&line](const std::vector<std::string>& labels) {
    Result<json::object> parsed = parse_labels(labels);
    if (!parsed) throw CLI::ValidationError("--label", parsed.error());
    line.job.labels = std::move(parsed).value();
  };
  app.add_option_function<std::vector<std::string>>(
         "--label", set_labels, "KEY=VALUE: label of the run on the server, such as team=mt; may be repeated")
      ->allow_extra_args(false);
  app.add_option("--run-dir", line.job.run_folder, "folder of the run, for checkpoints and spool; default runs/NAME");
  app.add_option("--spool-mb", line.job.max_spool_mb,
                 "max size of each rank's spool in MiB, as far as the server has confirmed it; 0: unlimited")
      ->check(CLI::Range(0, 1 << 20))
      ->capture_default_str();
  app.add_flag("--take-over", line.job.take_over,
               "start even if another worker trains in the run's folder; that worker stops at its next checkpoint");
  app.add_flag("--from-scratch", line.job.from_scratch,
               "start at update 1; existing checkpoints of the run are moved to checkpoints/aside");
  app.add_flag("--accept-changes", line.job.accept_changes,
               "resume even if the configuration changes the model or the order of the data");
  app.add_option("--tensorboard", line.job.event_folder, "folder for TensorBoard event files, written by rank 0");
  const Choices<ProgressBar>& bars = progress_bar_choices();
  app.add_option_function<std::string>(
         "--progress", [&line, &bars](const std::string& word) { line.job.progress = choice_of(bars, word); },
         "progress bar on standard error; auto: if it is a terminal")
      ->check(CLI::IsMember(words_of(bars)))
      ->default_str(word_of(bars, line.job.progress));
  app.add_option("--log-level", line.log_level, "debug, info, warn or error")->capture_default_str();
  declare_for_servers(app, line);
  add_completion_option(app, keys);
  add_man_page_option(app, keys);
  app.footer("Keys of the configuration:\n" + describe(keys));
}

std::unique_ptr<Communicator> make_communicator(bool under_mpirun, const CommOptions& options) {
  return under_mpirun ? make_mpi_communicator(options) : make_single_communicator();
}

/// The communication deadline until all ranks have the configuration file: communication.deadline_s from the command
/// line, otherwise the default. An invalid value is refused later.
std::chrono::milliseconds start_deadline(const std::vector<std::string>& overrides) {
  constexpr std::string_view key = "communication.deadline_s=";
  double seconds = CommConfig().deadline_s;
  for (const std::string& text : overrides) {
    if (text.starts_with(key)) seconds = parse_decimal<double>(std::string_view(text).substr(key.size())).value_or(0);
  }
  if (!(seconds > 0 && seconds <= 1e6)) seconds = CommConfig().deadline_s;
  return std::chrono::milliseconds(static_cast<std::int64_t>(seconds * 1000));
}

/// The end of the process. Exit code 0: done; 1: training diverged, the ranks' weights differ, or another failure that
/// all ranks know; 2: usage error. Only rank 0 reports the error.
struct End {
  int exit_code = 0;
  std::chrono::milliseconds deadline;  // for MPI_Finalize
};

End work(const CommandLine& line, bool under_mpirun, std::chrono::milliseconds deadline,
         const std::optional<LaunchedRanks>& promised, StopRequest& stop, SignalThread& signals) {
  std::unique_ptr<Communicator> communicator = make_communicator(under_mpirun, {.deadline = deadline});
  const bool first_rank = communicator->rank() == 0;
  init_log(communicator->size() > 1 ? fmt::format("rank {}", communicator->rank()) : "", line.log_level,
           draws_progress(line.job.progress));
  LogRecords log;
  if (under_mpirun) watch_launcher();
  try {
    require_launched_ranks(promised, communicator->size());
    if (!line.job.run.empty() || line.job.attempt != 0) check_identity(line.job.run, line.job.attempt);
    // First, and separately: programs of different versions may not understand each other's configuration.
    require_agreement({program_fact(), open_mpi_fact(own_libraries())}, *communicator);
    // The configuration has the communicator's options and may exist on rank 0 only. So broadcast it with the defaults,
    // then create the communicator again.
    const TrainConfig config = shared_config(line.job, *communicator);
    config.check_ranks(communicator->size());
    deadline = config.communication.options().deadline;
    JobOptions job = line.job;
    job.server.token = shared_token(line.job, *communicator);
    check_server_access(job, *communicator);
    communicator.reset();
    communicator = make_communicator(under_mpirun, config.comm_options());
    const SignalledRanks signalled(signals, *communicator);
    run_job(job, config, *communicator, stop, log);
    return {0, deadline};
  } catch (const UsageFailure& failure) {
    if (first_rank) print_error(fmt::format("worker: error: {}\n", failure.what()));
    return {2, deadline};
  } catch (const Diverged& failure) {  // thrown by all ranks, as the next one
    if (first_rank) spdlog::error("{}", failure.what());
    return {1, deadline};
  } catch (const RanksDiffer& failure) {
    if (first_rank) spdlog::error("{}", failure.what());
    return {1, deadline};
  } catch (const AgreedFailure& failure) {
    if (first_rank) spdlog::error("{}", failure.what());
    return {1, deadline};
  }
}

/// Logs a failure of this rank. When a rank has failed, mpirun sends SIGTERM to the others. Their communication errors
/// are then a consequence, so they are logged as warnings: the rank that failed has logged the cause.
void report(const std::exception& failure, bool terminated, bool under_mpirun) {
  const bool communication = dynamic_cast<const CommError*>(&failure) != nullptr;  // its message names hosts
  if (communication && terminated) {
    spdlog::warn("received SIGTERM, probably because another rank has failed; consequence: {}", failure.what());
  } else {
    spdlog::error("{}{}", communication || !under_mpirun ? "" : "on " + host_name() + ": ", reason(failure));
  }
}

/// Runs this rank. A failure aborts all ranks.
int run(const CommandLine& line, bool under_mpirun, int& argc, char**& argv) {
  StopRequest stop;
  SignalThread signals(stop);
  try {
    const auto promised = find_launched_ranks([](const char* name) { return std::getenv(name); });
    const std::chrono::milliseconds deadline = start_deadline(line.job.overrides);
    std::optional<MpiSession> mpi;
    if (under_mpirun) mpi.emplace(argc, argv, deadline);
    const End end = work(line, under_mpirun, deadline, promised, stop, signals);
    if (mpi) mpi->finalize(end.deadline, end.exit_code);
    return end.exit_code;
  } catch (const std::exception& failure) {
    report(failure, signals.terminated(), under_mpirun);
    if (under_mpirun) abort_mpi(1);
    return 1;
  }
}

}  // namespace

int main(int argc, char** argv) {
  return run_program("worker", [&] {
    const std::string name = name_called(argv[0], "worker");
    CLI::App app("Trains a model, one process per rank: mpirun -H hostA:2,hostB:2 " + name + " --config FILE", name);
    CommandLine line;
    TrainConfig defaults;
    OptionBinder keys;
    defaults.bind(keys);
    declare(app, line, keys);
    if (!parse_command_line(app, argc, argv)) return 0;
    init_log("", line.log_level);
    if (line.check_config) {
      return print_config_check(line.job.config_file, line.job.overrides, line.check_data, line.check_ranks);
    }
    if (const char* file = std::getenv("BABELRING_CA_FILE")) line.job.server.ca_file = file;
    return run(line, MpiSession::under_mpirun(), argc, argv);
  });
}
