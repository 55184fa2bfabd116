#pragma once

#include <string>

namespace babelring {

/// Ignores the signals that would end a program and mean nothing to a server (SIGUSR1, SIGALRM, …), and holds SIGHUP
/// for wait_for_signal(). Call it before any thread is started.
void ignore_signals();

/// Holds SIGINT, SIGTERM, SIGQUIT and SIGXCPU too, for this thread and all that it starts.
void hold_signals();

/// Waits for a signal that is held, and returns it.
int wait_for_signal();

/// "SIGHUP".
std::string signal_name(int signal);

}  // namespace babelring
