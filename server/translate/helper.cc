#include "server/translate/helper.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <poll.h>
#include <spawn.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <csignal>
#include <cstdlib>
#include <cstring>
#include <thread>

#include "base/failure.h"
#include "base/log.h"
#include "base/priority.h"

namespace babelring::translate {
namespace {

constexpr std::size_t max_line_bytes = std::size_t{16} << 20;
constexpr std::size_t kept_error_bytes = 4096;
constexpr int niceness = 5;  // must not slow down the server

/// The environment of a translator: the variables it may need, without secrets.
std::vector<std::string> small_environment() {
  std::vector<std::string> kept;
  for (const char* name : {"PATH", "LD_LIBRARY_PATH", "HOME", "LANG", "LC_ALL", "TZ", "TMPDIR", "OMP_NUM_THREADS",
                           "BABELRING_CPU_ISA", "DNNL_MAX_CPU_ISA", "ASAN_OPTIONS", "TSAN_OPTIONS"}) {
    if (const char* value = std::getenv(name)) kept.push_back(fmt::format("{}={}", name, value));
  }
  return kept;
}

std::vector<char*> pointers(std::vector<std::string>& texts) {
  std::vector<char*> list;
  list.reserve(texts.size() + 1);
  for (std::string& text : texts) list.push_back(text.data());
  list.push_back(nullptr);
  return list;
}

/// File actions and attributes for posix_spawn, released on destruction.
class SpawnPlan {
 public:
  SpawnPlan(int channel, int errors) {
    posix_spawn_file_actions_init(&actions);
    posix_spawn_file_actions_adddup2(&actions, channel, STDIN_FILENO);
    posix_spawn_file_actions_adddup2(&actions, channel, STDOUT_FILENO);
    posix_spawn_file_actions_adddup2(&actions, errors, STDERR_FILENO);
    posix_spawn_file_actions_addclosefrom_np(&actions, STDERR_FILENO + 1);
    posix_spawnattr_init(&attributes);
    sigset_t none, usual;
    sigemptyset(&none);
    sigfillset(&usual);
    posix_spawnattr_setsigmask(&attributes, &none);
    posix_spawnattr_setsigdefault(&attributes, &usual);
    posix_spawnattr_setpgroup(&attributes, 0);  // shields it from Ctrl-C on the server's terminal
    posix_spawnattr_setflags(&attributes, POSIX_SPAWN_SETSIGMASK | POSIX_SPAWN_SETSIGDEF | POSIX_SPAWN_SETPGROUP);
  }
  ~SpawnPlan() {
    posix_spawn_file_actions_destroy(&actions);
    posix_spawnattr_destroy(&attributes);
  }
  SpawnPlan(const SpawnPlan&) = delete;
  SpawnPlan& operator=(const SpawnPlan&) = delete;

  posix_spawn_file_actions_t actions;
  posix_spawnattr_t attributes;
};

}  // namespace

Helper::Helper(const std::filesystem::path& program, const std::vector<std::string>& arguments) {
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
  std::vector<std::string> words = {program.string()}, environment = small_environment();
  words.insert(words.end(), arguments.begin(), arguments.end());
  const SpawnPlan plan(channel[1], errors[1]);
  const int error = posix_spawn(&pid_, program.c_str(), &plan.actions, &plan.attributes, pointers(words).data(),
                                pointers(environment).data());
  close(channel[1]);
  close(errors[1]);
  if (error == 0) {
    lower_priority(pid_, niceness);
    return;
  }
  close(channel_);
  close(errors_);
  fail("{}: {}", program.string(), std::strerror(error));
}

Helper::~Helper() {
  end();
  close(channel_);
  close(errors_);
}

void Helper::reap(bool wait) {
  int status = 0;
  if (exit_code_ || waitpid(pid_, &status, wait ? 0 : WNOHANG) != pid_) return;
  exit_code_ = WIFSIGNALED(status) ? 128 + WTERMSIG(status) : WEXITSTATUS(status);
}

bool Helper::running() {
  reap(false);
  return !exit_code_;
}

int Helper::end() {
  if (running()) kill(pid_, SIGKILL);
  reap(true);
  read_errors();
  return exit_code_.value_or(-1);
}

/// Returns false at the deadline. Drains standard error meanwhile, so that the process never blocks on it.
bool Helper::wait_for(bool to_write, SteadyClock::time_point deadline) {
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

void Helper::read_errors() {
  std::array<char, 4096> buffer{};
  for (ssize_t got = 0; (got = read(errors_, buffer.data(), buffer.size())) > 0;) {
    error_text_.append(buffer.data(), static_cast<std::size_t>(got));
    if (error_text_.size() > kept_error_bytes) error_text_.erase(0, error_text_.size() - kept_error_bytes);
  }
}

Helper::Trouble Helper::send(const std::string& line, SteadyClock::time_point deadline) {
  const std::string text = line + '\n';
  for (std::size_t sent = 0; sent < text.size();) {
    const ssize_t wrote = ::send(channel_, text.data() + sent, text.size() - sent, MSG_NOSIGNAL);
    if (wrote >= 0) {
      sent += static_cast<std::size_t>(wrote);
    } else if (errno == EAGAIN) {
      if (!wait_for(true, deadline)) return Trouble::late;
    } else if (errno != EINTR) {
      return Trouble::ended;
    }
  }
  return Trouble::none;
}

Helper::Line Helper::receive(SteadyClock::time_point deadline) {
  std::array<char, 65536> buffer;
  for (;;) {
    if (const std::size_t end = received_.find('\n'); end != std::string::npos) {
      Line line{Trouble::none, received_.substr(0, end)};
      received_.erase(0, end + 1);
      return line;
    }
    if (received_.size() > max_line_bytes) return {Trouble::ended, {}};
    const ssize_t got = read(channel_, buffer.data(), buffer.size());
    if (got > 0) {
      received_.append(buffer.data(), static_cast<std::size_t>(got));
    } else if (got == 0 || (errno != EAGAIN && errno != EINTR)) {
      return {Trouble::ended, {}};
    } else if (errno == EAGAIN && !wait_for(false, deadline)) {
      return {Trouble::late, {}};
    }
  }
}

std::string Helper::last_words() const {
  std::string text = error_text_;
  while (!text.empty() && text.back() == '\n') text.pop_back();
  const std::size_t begin = text.rfind('\n');
  return printable(begin == std::string::npos ? text : text.substr(begin + 1));
}

}  // namespace babelring::translate
