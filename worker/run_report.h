#pragma once

#include <filesystem>

namespace babelring {

/// Writes report.html and report.json into the run's folder, from the spools there. Never throws: if the report cannot
/// be made or written, logs one warning.
void write_run_report(const std::filesystem::path& folder);

}  // namespace babelring
