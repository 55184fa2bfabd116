#pragma once

#include <string_view>

namespace babelring {

/// Crash injection for tests. If BABELRING_FAILPOINT is "NAME@N", the N-th call with this name kills the process with
/// SIGKILL. Does nothing in programs built without tests. Thread-safe.
void failpoint(std::string_view name);

}  // namespace babelring
