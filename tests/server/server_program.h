#pragma once

#include <fcntl.h>
#include <spawn.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <csignal>
#include <cstdint>
#include <cstdio>
#include <filesystem>
#include <memory>
#include <stdexcept>
#include <string>
#include <vector>

#include "base/files.h"
#include "tests/soon.h"

extern char** environ;

namespace babelring::testing {

/// The server program as users run it.
class Process {
 public:
  explicit Process(std::vector<std::string> arguments) {
    std::string program = BABELRING_BIN_DIR "/server";
    std::vector<char*> argv = {program.data()};
    for (std::string& argument : arguments) argv.push_back(argument.data());
    argv.push_back(nullptr);
    folder_ = arguments.at(3);
    std::array<int, 2> out{};
    if (pipe2(out.data(), O_CLOEXEC) != 0) throw std::runtime_error("pipe2");
    posix_spawn_file_actions_t actions;
    posix_spawn_file_actions_init(&actions);
    posix_spawn_file_actions_adddup2(&actions, out[1], STDOUT_FILENO);
    posix_spawn_file_actions_adddup2(&actions, fileno(log_.get()), STDERR_FILENO);
    posix_spawn(&pid_, program.c_str(), &actions, nullptr, argv.data(), environ);
    posix_spawn_file_actions_destroy(&actions);
    close(out[1]);
    for (char c = 0; read(out[0], &c, 1) == 1 && c != '\n';) line_ += c;
    close(out[0]);
  }
  ~Process() {
    if (pid_ > 0) end(SIGKILL);
  }
  Process(const Process&) = delete;
  Process& operator=(const Process&) = delete;

  const std::string& line() const { return line_; }
  /// The administrator's, as the server wrote it down.
  std::string token() const {
    std::string text = read_file(folder_ / "admin.token");
    while (!text.empty() && text.back() == '\n') text.pop_back();
    return text;
  }
  /// Everything on standard error so far.
  std::string log() const {
    std::string text(1 << 20, '\0');
    const ssize_t size = pread(fileno(log_.get()), text.data(), text.size(), 0);
    return text.substr(0, size < 0 ? 0 : static_cast<std::size_t>(size));
  }
  bool logged(const std::string& text) const {
    return soon([&] { return log().find(text) != std::string::npos; });
  }
  void send(int signal) const { kill(pid_, signal); }
  std::uint16_t port() const { return static_cast<std::uint16_t>(std::stoi(line_.substr(line_.rfind(':') + 1))); }
  /// Wait status after the signal (0: none sent).
  int end(int signal) {
    int status = 0;
    if (signal != 0) kill(pid_, signal);
    waitpid(pid_, &status, 0);
    pid_ = -1;
    return status;
  }

 private:
  pid_t pid_ = -1;
  std::string line_;
  std::unique_ptr<std::FILE, int (*)(std::FILE*)> log_{std::tmpfile(), std::fclose};
  std::filesystem::path folder_;  // --data
};

/// Arguments for a server with this data folder.
inline std::vector<std::string> arguments_for(const std::filesystem::path& data, std::vector<std::string> more = {}) {
  std::vector<std::string> all = {"--listen", "127.0.0.1:0", "--data", data.string()};
  all.insert(all.end(), more.begin(), more.end());
  return all;
}

}  // namespace babelring::testing
