#pragma once

#include <sys/types.h>

#include <filesystem>
#include <string>

namespace babelring {

/// Whether the launcher that started process `pid` (mpirun and its kin, on this host) writes its standard error to a
/// terminal: the launcher gives its processes pipes, and forwards what they write. False if there is no launcher here,
/// as on the other hosts of a run. `proc` is /proc.
bool launcher_has_terminal(pid_t pid, const std::filesystem::path& proc = "/proc");

/// Whether to draw a progress bar: `choice` is auto, always or never; auto is where standard error ends at a terminal,
/// directly or through the launcher.
bool draws_progress(const std::string& choice);

}  // namespace babelring
