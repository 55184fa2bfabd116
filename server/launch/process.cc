#include "server/launch/process.h"

#include <fcntl.h>
#include <poll.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <csignal>
#include <cstring>
#include <utility>

#include "base/clock.h"
#include "base/failure.h"
#include "base/spawn.h"

namespace babelring::launch {
namespace {

pid_t start(const ProcessOrder& order, int output, int errors) {
  SpawnOptions options{.arguments = order.arguments,
                       .environment = order.environment,
                       .folder = order.folder,
                       .input = order.input,
                       .output = output,
                       .errors = errors,
                       .nice = order.nice};
  if (!order.output.empty()) options.output_file = order.output.string();
  const auto pid = spawn(options);
  if (!pid) fail("cannot start {}: {}", order.arguments.front(), pid.error());
  return *pid;
}

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

/// Marks the answer as late. Returns the reason to kill the program.
std::string too_late(ProgramAnswer& answer, const ProgramLimits& limits) {
  answer.late = true;
  return fmt::format("exceeded the time limit of {} ms", limits.time.count());
}

/// Reads both output streams to the end. Returns the reason to kill the program, or "".
std::string read_answer(Pipe& out, Pipe& err, ProgramAnswer& answer, const ProgramLimits& limits,
                        SteadyClock::time_point end) {
  std::array<bool, 2> open = {true, true};
  while (open[0] || open[1]) {
    const auto left = std::chrono::duration_cast<std::chrono::milliseconds>(end - SteadyClock::now()).count();
    if (left <= 0) return too_late(answer, limits);
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
  return start(order, -1, -1);
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
  const pid_t pid = start(order, out.writing(), err.writing());
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
    if (SteadyClock::now() >= end) given_up = too_late(answer, limits);
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
  return inherited_environment(
      {"PATH", "HOME", "USER", "LANG", "LC_ALL", "TMPDIR", "LD_LIBRARY_PATH", "BABELRING_CA_FILE"});
}

}  // namespace babelring::launch
