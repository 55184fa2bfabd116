#include "nmt/train/setup/own_libraries.h"

#include <gnu/libc-version.h>

#include "nmt/comm/mpi/probe.h"
#include "nmt/data/vocabulary.h"
#include "nmt/ops/backend.h"

namespace babelring {

LibraryVersions own_libraries() {
  return {.onednn = onednn_version(),
          .open_mpi = open_mpi_version(mpi_library()),
          .sentencepiece = sentencepiece_version(),
          .glibc = ::gnu_get_libc_version()};
}

}  // namespace babelring
