#pragma once

#include "base/records/library_versions.h"

namespace babelring {

/// The libraries that this process runs with, asked from them; of SentencePiece, which does not tell its version, the
/// one that the program was built with. May be called before MPI is initialised.
LibraryVersions own_libraries();

}  // namespace babelring
