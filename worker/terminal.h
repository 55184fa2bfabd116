#pragma once

#include <sys/types.h>

#include <filesystem>

#include "base/choices.h"

namespace babelring {

/// True if process `pid` or one of its ancestors is an MPI launcher (mpirun and similar) whose standard error is a
/// terminal. The launcher gives its processes pipes and forwards their output. False without a launcher on this host,
/// as on the remote hosts of a run. `proc` is /proc, except in tests.
bool launcher_has_terminal(pid_t pid, const std::filesystem::path& proc = "/proc");

/// Values of --progress. `automatic` draws a progress bar if standard error ends at a terminal, directly or through the
/// MPI launcher.
enum class ProgressBar { automatic, always, never };
/// The words for them: auto, always, never.
const Choices<ProgressBar>& progress_bar_choices();
/// Decides whether to draw a progress bar.
bool draws_progress(ProgressBar choice);
/// Columns of the terminal on which the progress bar is drawn; 80 if it does not say how many it has.
int progress_columns();

}  // namespace babelring
