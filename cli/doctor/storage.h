#pragma once

#include "cli/doctor/finding.h"

namespace babelring {

/// Whether runs can be kept in `folder` (or where it would be made): room, locks between processes, durable writes.
/// Writes a small file there and removes it.
Diagnoses storage_findings(const std::filesystem::path& folder);

}  // namespace babelring
