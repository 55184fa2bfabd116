#pragma once

#include "cli/doctor/finding.h"

namespace babelring {

/// Checks that `folder` is suitable for runs: free space, locks between processes, durable writes. If it does not
/// exist, checks its nearest existing parent. Writes and removes a small file there.
Diagnoses storage_findings(const std::filesystem::path& folder);

/// Reads the files of a folder of `nmt prepare` or `nmt gssm data` and compares them with the digests of its manifest:
/// a finding for each file that differs, or one for all.
Diagnoses data_findings(const std::filesystem::path& folder);

}  // namespace babelring
