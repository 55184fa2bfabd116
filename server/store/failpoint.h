#pragma once

#include <string_view>

namespace babelring::store {

/// Kills this process (SIGKILL, as the kernel would) when it is passed for the N-th time, if BABELRING_FAILPOINT is
/// "NAME@N" with this name. For tests of what a crash leaves behind; a program built without tests has an empty one.
/// Thread-safe.
void failpoint(std::string_view name);

}  // namespace babelring::store
