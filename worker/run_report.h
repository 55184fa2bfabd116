#pragma once

#include <filesystem>

#include "nmt/comm/communicator.h"
#include "worker/reporter.h"

namespace babelring {

/// Writes report.html and report.json into the run's folder, from the spools there. Never throws: if the report cannot
/// be made or written, logs one warning.
void write_run_report(const std::filesystem::path& folder);

/// Writes report.html and report.json of a run that has saved everything into its folder, and sends its last records,
/// on a thread. Until each rank is done all meet in collectives: they enter MPI_Finalize together, and none gives up
/// waiting there for one that writes its report, or tries for long to reach the server. Collective, but it does not
/// fail if a rank is lost.
void end_together(Communicator& communicator, Reporter& reporter, const std::filesystem::path& folder);

}  // namespace babelring
