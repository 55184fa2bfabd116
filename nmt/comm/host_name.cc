#include "nmt/comm/host_name.h"

#include <unistd.h>

#include <array>

namespace babelring {

std::string host_name() {
  std::array<char, 256> name{};
  return gethostname(name.data(), name.size() - 1) == 0 ? std::string(name.data()) : std::string("unknown");
}

}  // namespace babelring
