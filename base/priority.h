#pragma once

#include <sys/types.h>

namespace babelring {

/// Raises the nice value of a process by `steps`, or of the calling thread if `pid` is 0. Threads and processes started
/// later inherit it. If the process leads a session, also raises the nice value of the session's autogroup, because
/// Linux first divides CPU time between autogroups. Errors are ignored.
void lower_priority(pid_t pid, int steps);

}  // namespace babelring
