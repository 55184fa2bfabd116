#include "server/launch/process.h"

#include <fcntl.h>
#include <poll.h>
#include <spawn.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <csignal>
#include <cstdlib>
#include <cstring>
#include <utility>

#include "base/clock.h"
#include "base/failure.h"
#include "base/priority.h"

namespace babelring::launch {
namespace {

/// File actions and attributes for posix_spawn.
class SpawnPlan {
 public:
  SpawnPlan() {
    posix_spawn_file_actions_init(&actions_);
    posix_spawnattr_init(&attributes_);
    sigset_t none, all;
    sigemptyset(&none);
    sigfillset(&all);
    posix_spawnattr_setsigmask(&attributes_, &none);
    posix_spawnattr_setsigdefault(&attributes_, &all);
    posix_spawnattr_setflags(&attributes_,
                             static_cast<short>(POSIX_SPAWN_SETSIGMASK | POSIX_SPAWN_SETSIGDEF | POSIX_SPAWN_SETSID));
  }
  ~SpawnPlan() {
    posix_spawn_file_actions_destroy(&actions_);
    posix_spawnattr_destroy(&attributes_);
  }
  SpawnPlan(const SpawnPlan&) = delete;
  SpawnPlan& operator=(const SpawnPlan&) = delete;

  void write_to(int descriptor, int target) { posix_spawn_file_actions_adddup2(&actions_, descriptor, target); }
  void append_to(const std::string& file) {
    posix_spawn_file_actions_addopen(&actions_, STDOUT_FILENO, file.c_str(), O_WRONLY | O_CREAT | O_APPEND, 0640);
    posix_spawn_file_actions_adddup2(&actions_, STDOUT_FILENO, STDERR_FILENO);
  }

  pid_t start(const ProcessOrder& order) {
    if (order.input < 0) posix_spawn_file_actions_addopen(&actions_, STDIN_FILENO, "/dev/null", O_RDONLY, 0);
    if (order.input >= 0) posix_spawn_file_actions_adddup2(&actions_, order.input, STDIN_FILENO);
    posix_spawn_file_actions_addclosefrom_np(&actions_, 3);
    const std::string folder = order.folder.string();
    if (!folder.empty()) posix_spawn_file_actions_addchdir_np(&actions_, folder.c_str());
    std::vector<std::string> arguments = order.arguments, environment = order.environment;
    std::vector<char*> argv = pointers(arguments), envp = pointers(environment);
    pid_t pid = -1;
    const int error = posix_spawnp(&pid, argv[0], &actions_, &attributes_, argv.data(), envp.data());
    if (error != 0) fail("cannot start {}: {}", order.arguments.front(), std::strerror(error));
    if (order.nice > 0) lower_priority(pid, order.nice);
    return pid;
  }

 private:
  static std::vector<char*> pointers(std::vector<std::string>& texts) {
    std::vector<char*> out;
    out.reserve(texts.size() + 1);
    for (std::string& text : texts) out.push_back(text.data());
    out.push_back(nullptr);
    return out;
  }
  posix_spawn_file_actions_t actions_;
  posix_spawnattr_t attributes_;
};

class Pipe {
 public:
  Pipe() {
    if (pipe2(ends_.data(), O_CLOEXEC) != 0) fail("pipe: {}", std::strerror(errno));
  }
  ~Pipe() {
    close_one(0);
    close_one(1);
  }
  Pipe(const Pipe&) = delete;
  Pipe& operator=(const Pipe&) = delete;
  int reading() const { return ends_[0]; }
  int writing() const { return ends_[1]; }
  void close_one(std::size_t which) {
    if (ends_[which] >= 0) close(ends_[which]);
    ends_[which] = -1;
  }
  /// Reads available data. Returns false at the end.
  bool drain(std::string& into) {
    std::array<char, 4096> block;
    const ssize_t got = read(ends_[0], block.data(), block.size());
    if (got > 0) into.append(block.data(), static_cast<std::size_t>(got));
    return got > 0 || (got < 0 && errno == EINTR);
  }

 private:
  std::array<int, 2> ends_{-1, -1};
};

std::string too_long(const ProgramLimits& limits) {
  return fmt::format("exceeded the time limit of {} ms", limits.time.count());
}

/// Reads both output streams to the end. Returns the reason to kill the program, or "".
std::string read_answer(Pipe& out, Pipe& err, ProgramAnswer& answer, const ProgramLimits& limits,
                        SteadyClock::time_point end) {
  std::array<bool, 2> open = {true, true};
  while (open[0] || open[1]) {
    const auto left = std::chrono::duration_cast<std::chrono::milliseconds>(end - SteadyClock::now()).count();
    if (left <= 0) return too_long(limits);
    if (limits.abandoned && limits.abandoned()) return "was killed: the request was abandoned";
    const auto pause = limits.abandoned ? std::min<std::int64_t>(left, 100) : left;
    std::array<pollfd, 2> files = {pollfd{open[0] ? out.reading() : -1, POLLIN, 0},
                                   pollfd{open[1] ? err.reading() : -1, POLLIN, 0}};
    if (poll(files.data(), files.size(), static_cast<int>(pause)) < 0 && errno != EINTR) return std::strerror(errno);
    if (files[0].revents != 0) open[0] = out.drain(answer.output);
    if (files[1].revents != 0) open[1] = err.drain(answer.complaint);
    if (answer.output.size() > limits.output_bytes || answer.complaint.size() > limits.output_bytes) {
      return fmt::format("wrote more than {} bytes", limits.output_bytes);
    }
  }
  return "";
}

}  // namespace

pid_t start_process(const ProcessOrder& order) {
  SpawnPlan plan;
  plan.append_to(order.output.empty() ? "/dev/null" : order.output.string());
  return plan.start(order);
}

std::optional<Ended> poll_child(pid_t pid) {
  int status = 0;
  const pid_t got = waitpid(pid, &status, WNOHANG);
  if (got == 0) return std::nullopt;
  if (got < 0) return Ended{-1};
  return Ended{WIFSIGNALED(status) ? 128 + WTERMSIG(status) : WEXITSTATUS(status)};
}

ProgramAnswer run_program(const ProcessOrder& order, const ProgramLimits& limits) {
  Pipe out, err;
  SpawnPlan plan;
  plan.write_to(out.writing(), STDOUT_FILENO);
  plan.write_to(err.writing(), STDERR_FILENO);
  const pid_t pid = plan.start(order);
  if (limits.memory_bytes > 0) {
    const rlimit limit{limits.memory_bytes, limits.memory_bytes};
    prlimit(pid, RLIMIT_AS, &limit, nullptr);
  }
  out.close_one(1);
  err.close_one(1);
  ProgramAnswer answer;
  const auto end = SteadyClock::now() + limits.time;
  std::string given_up = read_answer(out, err, answer, limits, end);
  std::optional<Ended> ended;
  while (given_up.empty() && !(ended = poll_child(pid))) {  // it may close its outputs but keep running
    if (SteadyClock::now() >= end) given_up = too_long(limits);
    usleep(1000);
  }
  if (ended) {
    answer.code = ended->code;
    return answer;
  }
  kill(-pid, SIGKILL);
  while (waitpid(pid, nullptr, 0) < 0 && errno == EINTR) {
  }
  answer.code = -1;
  answer.complaint = fmt::format("{} {}", order.arguments.front(), given_up);
  return answer;
}

std::vector<std::string> plain_environment() {
  std::vector<std::string> environment;
  for (const char* name :
       {"PATH", "HOME", "USER", "LANG", "LC_ALL", "TMPDIR", "LD_LIBRARY_PATH", "BABELRING_CA_FILE"}) {
    if (const char* value = std::getenv(name)) environment.push_back(fmt::format("{}={}", name, value));
  }
  return environment;
}

std::string shell_quoted(const std::string& text) {
  std::string quoted = "'";
  for (const char c : text) {
    if (c == '\'') {
      quoted += "'\\''";
    } else {
      quoted += c;
    }
  }
  return quoted + "'";
}

}  // namespace babelring::launch
