#include "base/spawn.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <spawn.h>
#include <sys/resource.h>
#include <unistd.h>

#include <algorithm>
#include <csignal>
#include <cstdlib>
#include <cstring>
#include <fstream>
#include <string>

namespace babelring {

void lower_priority(pid_t pid, int steps) {
  const auto process = static_cast<id_t>(pid);
  constexpr int lowest = 19;
  setpriority(PRIO_PROCESS, process, std::min(lowest, getpriority(PRIO_PROCESS, process) + steps));
  if (pid != 0 && getsid(pid) == pid) std::ofstream("/proc/" + std::to_string(pid) + "/autogroup") << steps;
}

namespace {

/// File actions and attributes of posix_spawn, released on destruction.
class SpawnPlan {
 public:
  explicit SpawnPlan(const SpawnOptions& options) {
    posix_spawn_file_actions_init(&actions);
    posix_spawnattr_init(&attributes);
    sigset_t none, all;
    sigemptyset(&none);
    sigfillset(&all);
    posix_spawnattr_setsigmask(&attributes, &none);
    posix_spawnattr_setsigdefault(&attributes, &all);
    posix_spawnattr_setpgroup(&attributes, 0);
    const int group = options.new_session ? POSIX_SPAWN_SETSID : POSIX_SPAWN_SETPGROUP;
    posix_spawnattr_setflags(&attributes, static_cast<short>(POSIX_SPAWN_SETSIGMASK | POSIX_SPAWN_SETSIGDEF | group));
    connect(options.input, STDIN_FILENO, "/dev/null", O_RDONLY);
    connect(options.output, STDOUT_FILENO, options.output_file, O_WRONLY | O_CREAT | O_APPEND);
    connect(options.errors < 0 ? STDOUT_FILENO : options.errors, STDERR_FILENO, {}, 0);
    posix_spawn_file_actions_addclosefrom_np(&actions, STDERR_FILENO + 1);
    const std::string folder = options.folder.string();
    if (!folder.empty()) posix_spawn_file_actions_addchdir_np(&actions, folder.c_str());
  }
  ~SpawnPlan() {
    posix_spawn_file_actions_destroy(&actions);
    posix_spawnattr_destroy(&attributes);
  }
  SpawnPlan(const SpawnPlan&) = delete;
  SpawnPlan& operator=(const SpawnPlan&) = delete;

  posix_spawn_file_actions_t actions;
  posix_spawnattr_t attributes;

 private:
  void connect(int descriptor, int target, const std::string& file, int flags) {
    if (descriptor >= 0) {
      posix_spawn_file_actions_adddup2(&actions, descriptor, target);
    } else {
      posix_spawn_file_actions_addopen(&actions, target, file.c_str(), flags, 0640);
    }
  }
};

std::vector<char*> pointers(std::vector<std::string>& texts) {
  std::vector<char*> list;
  list.reserve(texts.size() + 1);
  for (std::string& text : texts) list.push_back(text.data());
  list.push_back(nullptr);
  return list;
}

}  // namespace

Result<pid_t> spawn(const SpawnOptions& options) {
  const SpawnPlan plan(options);
  std::vector<std::string> arguments = options.arguments, environment = options.environment;
  pid_t pid = -1;
  const int error = posix_spawnp(&pid, arguments.front().c_str(), &plan.actions, &plan.attributes,
                                 pointers(arguments).data(), pointers(environment).data());
  if (error != 0) return Error{std::strerror(error)};
  if (options.nice > 0) lower_priority(pid, options.nice);
  return pid;
}

std::vector<std::string> inherited_environment(std::initializer_list<const char*> names) {
  std::vector<std::string> environment;
  for (const char* name : names) {
    if (const char* value = std::getenv(name)) environment.push_back(fmt::format("{}={}", name, value));
  }
  return environment;
}

}  // namespace babelring
