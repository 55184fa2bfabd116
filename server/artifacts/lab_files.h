#pragma once

#include <filesystem>
#include <optional>
#include <string>
#include <vector>

#include "base/files.h"
#include "server/store/checkpoints.h"
#include "server/store/store.h"

namespace babelring::artifacts {

/// Canonical folders. Files of runs are read and removed only below one of them.
using Roots = std::vector<std::filesystem::path>;

/// The canonical path of a folder that a worker reported, which need not exist. Nothing if it is not absolute, lies
/// below no root or is not called `name`.
std::optional<std::filesystem::path> folder_below(const Roots& roots, const std::filesystem::path& reported,
                                                  const std::string& name);

// The files that tools wrote into the folders `lab` of runs. Reports of workers are not trusted: such a folder must
// lie below the server's roots, and its files are opened beneath it, without following links.

/// The artifact with this id. Throws Problem 404.
store::ArtifactRow require_artifact(store::Store& store, const std::string& id);

/// Opens the artifact's file for reading. Throws Problem 409 if its folder lies outside every root or is not called
/// `lab`, or if the file's size differs from the record's; 410 if it was removed or is gone.
FileDescriptor open_artifact(const Roots& roots, const store::ArtifactRow& artifact);

}  // namespace babelring::artifacts
