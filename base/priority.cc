#include "base/priority.h"

#include <sys/resource.h>
#include <unistd.h>

#include <algorithm>
#include <fstream>
#include <string>

namespace babelring {

void lower_priority(pid_t pid, int steps) {
  const auto process = static_cast<id_t>(pid);
  constexpr int lowest = 19;
  setpriority(PRIO_PROCESS, process, std::min(lowest, getpriority(PRIO_PROCESS, process) + steps));
  if (pid != 0 && getsid(pid) == pid) std::ofstream("/proc/" + std::to_string(pid) + "/autogroup") << steps;
}

}  // namespace babelring
