#pragma once

#include <chrono>
#include <optional>
#include <string>

namespace babelring {

/// Ignores signals that would terminate the process and have no meaning for a server (SIGPIPE, SIGUSR1, SIGALRM, …),
/// and blocks SIGHUP for wait_for_signal(). Call this before any thread is started.
void ignore_signals();

/// Also blocks SIGINT, SIGTERM, SIGQUIT and SIGXCPU in this thread and the threads it starts.
void block_signals();

/// Blocks until one of the blocked signals arrives, and returns it.
int wait_for_signal();

/// Waits for at most `time` for one of the blocked signals except SIGHUP; nothing if none came.
std::optional<int> wait_for_signal(std::chrono::milliseconds time);

/// The signal's name, for example "SIGHUP"; its number as text if it has no name.
std::string signal_name(int signal);

}  // namespace babelring
