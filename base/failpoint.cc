#include "base/failpoint.h"

#include <unistd.h>

#include <atomic>
#include <csignal>
#include <cstdlib>
#include <string>

namespace babelring {
namespace {

/// The value of BABELRING_FAILPOINT, read once.
struct Failpoint {
  std::string name;
  std::atomic<long> left = 0;

  Failpoint() {
    const char* text = std::getenv("BABELRING_FAILPOINT");
    if (text == nullptr) return;
    name = text;
    const auto at = name.find('@');
    if (at == std::string::npos) return;
    left = std::strtol(name.c_str() + at + 1, nullptr, 10);
    name.resize(at);
  }
};

}  // namespace

void failpoint(std::string_view name) {
  static Failpoint chosen;
  if (name == chosen.name && chosen.left.fetch_sub(1) == 1) kill(getpid(), SIGKILL);
}

}  // namespace babelring
