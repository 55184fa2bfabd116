#include "server/translate/nmt_process.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <poll.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <csignal>
#include <cstring>
#include <thread>

#include "base/failure.h"
#include "base/log.h"
#include "base/spawn.h"

namespace babelring::translate {
namespace {

constexpr std::size_t max_line_bytes = std::size_t{16} << 20;
constexpr std::size_t kept_error_bytes = 4096;
constexpr int niceness = 5;  // must not slow down the server

/// The variables that the program may need, without secrets.
std::vector<std::string> nmt_environment() {
  return inherited_environment({"PATH", "LD_LIBRARY_PATH", "HOME", "LANG", "LC_ALL", "TZ", "TMPDIR", "OMP_NUM_THREADS",
                                "BABELRING_CPU_ISA", "DNNL_MAX_CPU_ISA", "ASAN_OPTIONS", "TSAN_OPTIONS"});
}

}  // namespace

NmtProcess::NmtProcess(const std::filesystem::path& program, const std::vector<std::string>& arguments,
                       const std::filesystem::path& folder) {
  std::array<int, 2> channel{}, errors{};
  if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, channel.data()) != 0)
    fail("socketpair: {}", std::strerror(errno));
  channel_ = channel[0];
  fcntl(channel_, F_SETFL, O_NONBLOCK);
  if (pipe2(errors.data(), O_CLOEXEC) != 0) {
    close(channel[0]);
    close(channel[1]);
    fail("pipe: {}", std::strerror(errno));
  }
  errors_ = errors[0];
  fcntl(errors_, F_SETFL, O_NONBLOCK);
  SpawnOptions options{.arguments = {program.string()},
                       .environment = nmt_environment(),
                       .folder = folder,
                       .input = channel[1],
                       .output = channel[1],
                       .errors = errors[1],
                       .new_session = false,
                       .nice = niceness};
  options.arguments.insert(options.arguments.end(), arguments.begin(), arguments.end());
  const auto pid = spawn(options);
  close(channel[1]);
  close(errors[1]);
  if (pid) {
    pid_ = *pid;
    return;
  }
  close(channel_);
  close(errors_);
  fail("{}: {}", program.string(), pid.error());
}

NmtProcess::~NmtProcess() {
  end();
  close(channel_);
  close(errors_);
}

void NmtProcess::reap(bool wait) {
  int status = 0;
  if (exit_code_ || waitpid(pid_, &status, wait ? 0 : WNOHANG) != pid_) return;
  exit_code_ = WIFSIGNALED(status) ? 128 + WTERMSIG(status) : WEXITSTATUS(status);
}

bool NmtProcess::running() {
  reap(false);
  return !exit_code_;
}

int NmtProcess::end() {
  if (running()) kill(pid_, SIGKILL);
  reap(true);
  read_errors();
  return exit_code_.value_or(-1);
}

/// Returns false at the deadline. Drains standard error meanwhile, so that the process never blocks on it.
bool NmtProcess::wait_for(bool to_write, SteadyClock::time_point deadline) {
  for (;;) {
    const auto left = std::chrono::duration_cast<std::chrono::milliseconds>(deadline - SteadyClock::now());
    if (left.count() <= 0) return false;
    std::array<struct pollfd, 2> files{};
    files[0] = {.fd = channel_, .events = static_cast<short>(to_write ? POLLOUT : POLLIN), .revents = 0};
    files[1] = {.fd = errors_, .events = POLLIN, .revents = 0};
    poll(files.data(), files.size(), static_cast<int>(std::min<std::int64_t>(left.count() + 1, 60000)));
    if (files[1].revents != 0) read_errors();
    if (files[0].revents != 0) return true;
    // After standard error is closed, poll() would return immediately: do not spin.
    if ((files[1].revents & POLLHUP) != 0) std::this_thread::sleep_for(std::chrono::milliseconds(1));
  }
}

void NmtProcess::read_errors() {
  std::array<char, 4096> buffer{};
  for (ssize_t got = 0; (got = read(errors_, buffer.data(), buffer.size())) > 0;) {
    error_text_.append(buffer.data(), static_cast<std::size_t>(got));
    if (error_text_.size() > kept_error_bytes) error_text_.erase(0, error_text_.size() - kept_error_bytes);
  }
}

NmtProcess::LineStatus NmtProcess::send(const std::string& line, SteadyClock::time_point deadline) {
  const std::string text = line + '\n';
  for (std::size_t sent = 0; sent < text.size();) {
    const ssize_t wrote = ::send(channel_, text.data() + sent, text.size() - sent, MSG_NOSIGNAL);
    if (wrote >= 0) {
      sent += static_cast<std::size_t>(wrote);
    } else if (errno == EAGAIN) {
      if (!wait_for(true, deadline)) return LineStatus::late;
    } else if (errno != EINTR) {
      return LineStatus::ended;
    }
  }
  return LineStatus::ok;
}

NmtProcess::Line NmtProcess::receive(SteadyClock::time_point deadline) {
  std::array<char, 65536> buffer;
  for (;;) {
    if (const std::size_t end = received_.find('\n'); end != std::string::npos) {
      Line line{LineStatus::ok, received_.substr(0, end)};
      received_.erase(0, end + 1);
      return line;
    }
    if (received_.size() > max_line_bytes) return {LineStatus::ended, {}};
    const ssize_t got = read(channel_, buffer.data(), buffer.size());
    if (got > 0) {
      received_.append(buffer.data(), static_cast<std::size_t>(got));
    } else if (got == 0 || (errno != EAGAIN && errno != EINTR)) {
      return {LineStatus::ended, {}};
    } else if (errno == EAGAIN && !wait_for(false, deadline)) {
      return {LineStatus::late, {}};
    }
  }
}

std::string NmtProcess::last_error_line() const {
  std::string text = error_text_;
  while (!text.empty() && text.back() == '\n') text.pop_back();
  const std::size_t begin = text.rfind('\n');
  return printable(begin == std::string::npos ? text : text.substr(begin + 1));
}

}  // namespace babelring::translate
