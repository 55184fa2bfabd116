#include "nmt/comm/mpi/session.h"

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <mpi.h>
#include <spdlog/spdlog.h>
#include <sys/resource.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <exception>
#include <filesystem>
#include <fstream>
#include <sstream>
#include <string>
#include <string_view>
#include <thread>
#include <utility>
#include <vector>

#include "base/clock.h"
#include "base/failure.h"
#include "base/text.h"
#include "nmt/comm/communicator.h"
#include "nmt/comm/host_name.h"

namespace babelring {

Watchdog::Watchdog(std::chrono::milliseconds deadline, std::function<void()> expired)
    : expired_(std::move(expired)), thread_([this, deadline] { watch(deadline); }) {}

Watchdog::~Watchdog() {
  {
    const std::lock_guard lock(mutex_);
    over_ = true;
    ended_.notify_all();
  }
  thread_.join();
}

void Watchdog::watch(std::chrono::milliseconds deadline) {
  // A longer gap than max_step means that the process was stopped.
  constexpr std::chrono::milliseconds interval{50}, max_step{1000};
  Nanoseconds waited{0};
  auto last = SteadyClock::now();
  std::unique_lock lock(mutex_);
  while (waited < deadline) {
    if (ended_.wait_for(lock, interval, [this] { return over_; })) return;
    const auto now = SteadyClock::now();
    waited += std::min<Nanoseconds>(now - last, max_step);
    last = now;
  }
  lock.unlock();
  expired_();
}

namespace {

/// Returns 0 if the variable is not set or not a number.
int number_in(const Environment& environment, const char* name) {
  const char* text = environment(name);
  return text == nullptr ? 0 : parse_number<int>(text).value_or(0);
}

}  // namespace

std::optional<LaunchedRanks> find_launched_ranks(const Environment& environment) {
  // Order matters: a Slurm step's task count takes precedence over its allocation's.
  for (const char* name : {"OMPI_COMM_WORLD_SIZE", "SLURM_STEP_NUM_TASKS", "SLURM_NTASKS", "PMI_SIZE", "WORLD_SIZE"}) {
    if (const int ranks = number_in(environment, name); ranks > 0) return LaunchedRanks{ranks, name};
  }
  return std::nullopt;
}

void require_launched_ranks(const std::optional<LaunchedRanks>& promised, int ranks) {
  if (!promised || promised->ranks <= ranks) return;
  const bool slurm = promised->variable.starts_with("SLURM_");
  throw UsageFailure(fmt::format(
      "{}={} promises {} ranks, but MPI has {}: each process would train by itself; start them by `mpirun -np {} "
      "worker …`{}, or unset {} to train with {}",
      promised->variable, promised->ranks, promised->ranks, ranks, promised->ranks,
      slurm ? " or `srun --mpi=pmix worker …`" : " of Open MPI", promised->variable, ranks));
}

namespace {

/// "rank 3 on hostB", or only the host if the launcher sets no rank variable.
std::string own_name() {
  for (const char* name : {"OMPI_COMM_WORLD_RANK", "PMIX_RANK", "PMI_RANK"}) {
    if (const char* rank = std::getenv(name)) return fmt::format("rank {} on {}", rank, host_name());
  }
  return host_name();
}

/// Each connection to another rank takes a descriptor; the usual limit of 1,024 is low for the first ranks of large
/// runs.
void raise_open_files() {
  rlimit limit{};
  if (getrlimit(RLIMIT_NOFILE, &limit) != 0) return;
  limit.rlim_cur = limit.rlim_max;
  setrlimit(RLIMIT_NOFILE, &limit);
}

/// True if a file of Open MPI's settings chooses interfaces: the user's, the system's, or those that a variable names.
bool settings_choose_interfaces() {
  std::vector<std::filesystem::path> files{"/etc/openmpi/openmpi-mca-params.conf", "/etc/openmpi-mca-params.conf"};
  if (const char* home = std::getenv("HOME")) files.push_back(std::filesystem::path(home) / ".openmpi/mca-params.conf");
  if (const char* named = std::getenv("OMPI_MCA_mca_base_param_files")) {
    std::istringstream list(named);
    for (std::string file; std::getline(list, file, ':');) files.emplace_back(file);
  }
  for (const std::filesystem::path& file : files) {
    std::ifstream stream(file);
    for (std::string line; std::getline(stream, line);) {
      const std::size_t begin = line.find_first_not_of(" \t");
      if (begin != std::string::npos && line.compare(begin, 11, "btl_tcp_if_") == 0) return true;
    }
  }
  return false;
}

/// Open MPI connects by any network that both hosts seem to have. A bridge such as docker0 has the same address on each
/// host, so a rank would wait for itself.
void leave_out_local_bridges() {
  if (std::getenv("OMPI_MCA_btl_tcp_if_include") || std::getenv("OMPI_MCA_btl_tcp_if_exclude")) return;
  const std::vector<std::string> bridges = bridges_to_avoid(local_bridges(), host_networks());
  if (bridges.empty() || settings_choose_interfaces()) return;
  const std::string list = fmt::format("127.0.0.1/8,sppp,{}", fmt::join(bridges, ","));  // the first two: its default
  setenv("OMPI_MCA_btl_tcp_if_exclude", list.c_str(), 1);
}

}  // namespace

MpiSession::MpiSession(int& argc, char**& argv, std::chrono::milliseconds deadline)
    : exceptions_at_start_(std::uncaught_exceptions()) {
  raise_open_files();
  leave_out_local_bridges();
  const Watchdog watchdog(deadline, [deadline] {
    spdlog::error(
        "{}: MPI_Init has not returned within {:g} s: another rank or its host was not started, is stopped or cannot "
        "be "
        "reached (communication.deadline_s=N on the command line gives it N seconds)",
        own_name(), std::chrono::duration<double>(deadline).count());
    _exit(1);
  });
  int granted = MPI_THREAD_SINGLE;
  if (MPI_Init_thread(&argc, &argv, MPI_THREAD_MULTIPLE, &granted) != MPI_SUCCESS) fail("mpi: MPI_Init_thread failed");
  if (granted != MPI_THREAD_MULTIPLE) {
    fail("mpi: this MPI grants thread level {}, the communication thread needs MPI_THREAD_MULTIPLE ({})", granted,
         int{MPI_THREAD_MULTIPLE});
  }
  MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_RETURN);
  MPI_Comm_set_errhandler(MPI_COMM_SELF, MPI_ERRORS_RETURN);
}

MpiSession::~MpiSession() {
  if (!finalized_ && std::uncaught_exceptions() == exceptions_at_start_) finalize(default_deadline, 0);
}

void MpiSession::finalize(std::chrono::milliseconds deadline, int exit_code) {
  finalized_ = true;
  const Watchdog watchdog(deadline, [deadline, exit_code] {
    spdlog::warn(
        "{}: MPI_Finalize has not returned within {:g} s: another rank or a daemon of mpirun's is stopped or cannot be "
        "reached; this rank's work is done, and it ends with exit code {}",
        own_name(), std::chrono::duration<double>(deadline).count(), exit_code);
    _exit(exit_code);
  });
  MPI_Finalize();
}

bool MpiSession::under_mpirun() {
  for (const char* name : {"OMPI_COMM_WORLD_SIZE", "PMIX_RANK", "PMI_RANK"}) {
    if (std::getenv(name) != nullptr) return true;
  }
  return false;
}

void abort_mpi(int exit_code) {
  std::fflush(nullptr);
  int initialised = 0, finalised = 0;
  MPI_Initialized(&initialised);
  MPI_Finalized(&finalised);
  if (initialised && !finalised) {
    std::thread([exit_code] {
      std::this_thread::sleep_for(std::chrono::seconds(2));
      _exit(exit_code);
    }).detach();
    MPI_Abort(MPI_COMM_WORLD, exit_code);
  }
  _exit(exit_code);
}

}  // namespace babelring
