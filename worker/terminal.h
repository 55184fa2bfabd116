#pragma once

#include <sys/types.h>

#include <filesystem>
#include <string>

namespace babelring {

/// True if process `pid` or one of its ancestors is an MPI launcher (mpirun and similar) whose standard error is a
/// terminal. The launcher gives its processes pipes and forwards their output. False without a launcher on this host,
/// as on the remote hosts of a run. `proc` is /proc, except in tests.
bool launcher_has_terminal(pid_t pid, const std::filesystem::path& proc = "/proc");

/// Decides whether to draw a progress bar. `choice` is auto, always or never; auto draws it if standard error ends at a
/// terminal, directly or through the MPI launcher.
bool draws_progress(const std::string& choice);

}  // namespace babelring
