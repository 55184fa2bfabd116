#include <fmt/format.h>
#include <spdlog/spdlog.h>
#include <CLI/CLI.hpp>

#include <unistd.h>

#include <atomic>
#include <csignal>
#include <cstdlib>
#include <iostream>
#include <memory>
#include <mutex>
#include <optional>
#include <thread>

#include "base/help.h"
#include "base/log.h"
#include "base/usage.h"
#include "base/version.h"
#include "nmt/comm/communicator.h"
#include "nmt/comm/mpi_session.h"
#include "nmt/comm/promised_ranks.h"
#include "nmt/ops/kernel_instruction_sets.h"
#include "nmt/train/divergence.h"
#include "worker/config_check.h"
#include "worker/job.h"
#include "worker/local_peers.h"
#include "worker/rank_agreement.h"
#include "worker/run_folder.h"
#include "worker/terminal.h"

namespace {

using namespace babelring;

/// Before any other constructor: those of sources with kernels may be compiled for more than this processor has.
[[gnu::constructor(101)]] void check_processor() {
  require_instruction_sets(kernel_instruction_sets, "worker");
}

// What the signal thread uses.
StopRequest stop_request;
std::mutex signalled_mutex;
Communicator* signalled_communicator = nullptr;  // with signalled_mutex held
const LocalPeers* signalled_peers = nullptr;     // with signalled_mutex held
std::atomic<bool> told_to_end{false};            // by SIGTERM

void on_signal(int signal) {
  if (signal == SIGUSR2) {
    spdlog::warn("SIGUSR2 means nothing to a worker, and training goes on; SIGUSR1 saves a checkpoint and ends it");
    return;
  }
  stop_request.request();
  told_to_end = told_to_end || signal == SIGTERM;
  // mpirun sends SIGTERM to all ranks when one has died: then there is a second left to name it.
  const std::lock_guard lock(signalled_mutex);
  if (signal != SIGTERM || signalled_communicator == nullptr) return;
  signalled_communicator->fail_fast(std::chrono::milliseconds(300));
  const std::string ended = signalled_peers->ended();
  if (!ended.empty()) spdlog::warn("told to end (SIGTERM): {} has ended before", ended);
}

/// Lets signals reach a communicator and the processes of its ranks here, for as long as this object lives: less long
/// than the communicator.
class SignalReach {
 public:
  explicit SignalReach(Communicator& communicator) : peers_(communicator) { set(&communicator, &peers_); }
  ~SignalReach() { set(nullptr, nullptr); }
  SignalReach(const SignalReach&) = delete;
  SignalReach& operator=(const SignalReach&) = delete;

 private:
  static void set(Communicator* communicator, const LocalPeers* peers) {
    const std::lock_guard lock(signalled_mutex);
    signalled_communicator = communicator;
    signalled_peers = peers;
  }

  LocalPeers peers_;
};

/// SIGTERM, SIGINT and SIGUSR1 end training after the update in progress, with a checkpoint; a second SIGINT ends it at
/// once; SIGUSR2 does nothing. One thread takes them and all later threads block them: a signal handler's frame on the
/// stack of a thread inside oneDNN's AVX-512 code has corrupted the heap.
void take_signals() {
  sigset_t signals;
  sigemptyset(&signals);
  for (const int signal : {SIGTERM, SIGINT, SIGUSR1, SIGUSR2}) sigaddset(&signals, signal);
  pthread_sigmask(SIG_BLOCK, &signals, nullptr);
  std::signal(SIGPIPE, SIG_IGN);
  std::thread([signals] {
    for (int interrupts = 0, signal = 0; sigwait(&signals, &signal) == 0;) {
      if (signal == SIGINT && ++interrupts == 2) {
        std::signal(SIGINT, SIG_DFL);
        pthread_sigmask(SIG_UNBLOCK, &signals, nullptr);
        std::raise(SIGINT);
      }
      on_signal(signal);
    }
  }).detach();
}

/// When the process that started this rank is gone, Open MPI ends the rank about a second later without a word, so this
/// says why. The rank's standard error may be gone too: the line is kept in the spool, like the rest of the log.
void watch_launcher() {
  std::thread([launcher = getppid()] {
    while (getppid() == launcher) std::this_thread::sleep_for(std::chrono::milliseconds(100));
    spdlog::error(
        "process {}, which started this rank (mpirun or its daemon), is gone: the rank ends without a checkpoint",
        launcher);
  }).detach();
}

struct CommandLine {
  JobOptions job;
  std::string log_level = "info";
  bool check_config = false, check_data = false;
  std::int64_t check_ranks = 1;
};

constexpr const char* for_servers = "For servers that start runs";

void declare(CLI::App& app, CommandLine& line) {
  set_help_form(app);
  app.set_version_flag("--version", std::string("worker ") + version, "print the version and end");
  app.add_option("--config", line.job.config_file, "YAML file; rank 0 reads it and sends it to the others")->required();
  app.add_option("overrides", line.job.overrides, "key=value, over the file: training.max_minutes=10");
  app.add_option("--server", line.job.server, "address of a `server`, http://host:port, or none")
      ->capture_default_str();
  app.add_option(
      "--token-file", line.job.token_file,
      "file with the token that the server wants; rank 0 reads it, else BABELRING_TOKEN, and tells the others");
  app.add_option("--run-dir", line.job.run_folder, "folder of the run: checkpoints, spool; default runs/NAME");
  app.add_flag("--take-over", line.job.take_over,
               "start although a worker trains in the run's folder; that one ends at its next checkpoint");
  app.add_option("--run-id", line.job.run, "id of the run, given by the server that starts it")->group(for_servers);
  app.add_option("--attempt", line.job.attempt, "number of the attempt, given with it")->group(for_servers);
  app.add_flag("--from-scratch", line.job.from_scratch,
               "begin at update 1 although the run has checkpoints: they are moved to checkpoints/aside");
  app.add_option("--resume-from", line.job.resume_from, "folder of the checkpoint to go on from; default the newest")
      ->excludes("--from-scratch")
      ->group(for_servers);
  app.add_flag("--accept-changes", line.job.accept_changes,
               "resume although the configuration changes the model or the order of the data");
  app.add_flag("--check-config", line.check_config, "print the resolved configuration as JSON, and end")
      ->group(for_servers);
  app.add_flag("--check-data", line.check_data, "with --check-config: check data.folder too")->group(for_servers);
  app.add_option("--check-ranks", line.check_ranks, "with --check-config: number of ranks to come")
      ->check(CLI::Range(1, 1'000'000))
      ->group(for_servers);
  app.add_option("--tensorboard", line.job.event_folder, "folder for TensorBoard event files, written by rank 0");
  app.add_option("--progress", line.job.progress, "a progress bar on standard error; auto: where that is a terminal")
      ->check(CLI::IsMember({"auto", "always", "never"}))
      ->capture_default_str();
  app.add_option("--log-level", line.log_level, "debug, info, warn or error")->capture_default_str();
  app.footer("Keys of the configuration:\n" + describe_config());
}

std::unique_ptr<Communicator> make_communicator(bool under_mpirun, const CommOptions& options) {
  return under_mpirun ? make_mpi_communicator(options) : make_single_communicator();
}

/// Until the ranks have the configuration, which rank 0 may be alone to read, communication.deadline_s is the command
/// line's or the default. A value that cannot be read is refused later.
std::chrono::milliseconds start_deadline(const std::vector<std::string>& overrides) {
  constexpr std::string_view key = "communication.deadline_s=";
  double seconds = CommConfig().deadline_s;
  for (const std::string& text : overrides) {
    if (text.starts_with(key)) seconds = std::strtod(text.c_str() + key.size(), nullptr);
  }
  if (!(seconds > 0 && seconds <= 1e6)) seconds = CommConfig().deadline_s;
  return std::chrono::milliseconds(static_cast<std::int64_t>(seconds * 1000));
}

/// How the process ends when its work is done: 0, 1 if training diverged, or 2 on wrong usage, which rank 0 alone
/// reports.
struct End {
  int exit_code = 0;
  std::chrono::milliseconds deadline;  // of MPI_Finalize
};

End work(const CommandLine& line, bool under_mpirun, std::chrono::milliseconds deadline,
         const std::optional<PromisedRanks>& promised) {
  std::unique_ptr<Communicator> communicator = make_communicator(under_mpirun, {.deadline = deadline});
  const bool first_rank = communicator->rank() == 0;
  init_log(communicator->size() > 1 ? fmt::format("rank {}", communicator->rank()) : "", line.log_level,
           draws_progress(line.job.progress));
  LogRecords log;
  if (under_mpirun) watch_launcher();
  try {
    require_promised_ranks(promised, communicator->size());
    if (!line.job.run.empty() || line.job.attempt != 0) check_identity(line.job.run, line.job.attempt);
    // Alone and first: programs of different versions may not understand each other's configuration.
    require_agreement({program_fact()}, *communicator);
    // The communicator's own options are part of the configuration, which rank 0 may be alone to see: share it first.
    const TrainConfig config = shared_config(line.job, *communicator);
    deadline = config.communication.options().deadline;
    JobOptions job = line.job;
    job.token = shared_token(line.job, *communicator);
    check_server_access(job, *communicator);
    communicator.reset();
    communicator = make_communicator(under_mpirun, config.communication.options());
    const SignalReach reach(*communicator);
    run_job(job, config, *communicator, stop_request, log);
    return {0, deadline};
  } catch (const UsageFailure& failure) {
    if (first_rank) std::cerr << "worker: error: " << failure.what() << '\n';
    return {2, deadline};
  } catch (const Diverged& failure) {  // thrown by all ranks
    if (first_rank) spdlog::error("{}", failure.what());
    return {1, deadline};
  }
}

/// What a rank says of a failure of its own. After SIGTERM, which mpirun sends to all when one rank has failed, a
/// silent peer is no news: the rank that failed has said why, and this must not look like the reason.
void report(const std::exception& failure) {
  const bool follows = told_to_end && dynamic_cast<const CommError*>(&failure) != nullptr;
  if (follows) {
    spdlog::warn("told to end (SIGTERM), most likely because another rank has failed; meanwhile: {}", failure.what());
  } else {
    spdlog::error("{}", failure.what());
  }
}

/// A failure of one rank ends all.
int run(const CommandLine& line, bool under_mpirun, int& argc, char**& argv) {
  try {
    const auto promised = find_promised_ranks([](const char* name) { return std::getenv(name); });
    const std::chrono::milliseconds deadline = start_deadline(line.job.overrides);
    std::optional<MpiSession> mpi;
    if (under_mpirun) mpi.emplace(argc, argv, deadline);
    const End end = work(line, under_mpirun, deadline, promised);
    if (mpi) mpi->finalize(end.deadline, end.exit_code);
    return end.exit_code;
  } catch (const std::exception& failure) {
    report(failure);
    if (under_mpirun) abort_mpi(1);
    return 1;
  }
}

}  // namespace

int main(int argc, char** argv) {
  CLI::App app("Trains a translation model, one process a rank: mpirun -H hostA:2,hostB:2 worker --config FILE",
               "worker");
  CommandLine line;
  declare(app, line);
  try {
    app.parse(argc, argv);
    init_log("", line.log_level);
  } catch (const CLI::Success& answered) {
    return app.exit(answered);
  } catch (const CLI::ParseError& error) {
    std::cerr << "worker: " << explain(app, {argv + 1, argv + argc}, error.what()) << '\n';
    return 2;
  } catch (const std::exception& failure) {  // a log level that there is not
    std::cerr << "worker: " << failure.what() << '\n';
    return 2;
  }
  if (line.check_config) {
    return print_config_check(line.job.config_file, line.job.overrides, line.check_data, line.check_ranks);
  }
  if (const char* file = std::getenv("BABELRING_CA_FILE")) line.job.ca_file = file;
  take_signals();
  return run(line, MpiSession::under_mpirun(), argc, argv);
}
