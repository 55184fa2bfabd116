#pragma once

#include <string>

#include "base/file_descriptor.h"
#include "server/artifacts/roots.h"
#include "server/store/artifacts.h"
#include "server/store/store.h"

/// The files that tools wrote into the folders `lab` of runs. Reports of workers are not trusted: such a folder must
/// lie below the server's roots, and its files are opened beneath it, without following links.
namespace babelring::artifacts {

/// The artifact with this id. Throws Problem 404.
store::ArtifactRow require_artifact(store::Store& store, const std::string& id);

/// Opens the artifact's file for reading. Throws Problem 409 if its folder lies outside every root or is not called
/// `lab`, or if the file's size differs from the record's; 410 if it was removed or is gone.
FileDescriptor open_artifact(const Roots& roots, const store::ArtifactRow& artifact);

}  // namespace babelring::artifacts
