#pragma once

#include <sys/types.h>

namespace babelring {

/// Lowers the priority of a process, or of the calling thread if `pid` is 0, by that many steps of nice. Threads and
/// processes that it starts later inherit that. Of a process that leads a session, the session's as a whole too, as
/// Linux with autogroups first divides time between sessions. Where the system refuses, nothing happens.
void lower_priority(pid_t pid, int steps);

}  // namespace babelring
