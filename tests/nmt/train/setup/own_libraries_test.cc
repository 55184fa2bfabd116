#include "nmt/train/setup/own_libraries.h"

#include <gmock/gmock.h>
#include <gnu/libc-version.h>

#include "nmt/comm/mpi/probe.h"
#include "nmt/ops/backend.h"

namespace babelring {
namespace {

using testing::HasSubstr;
using testing::MatchesRegex;

TEST(OwnLibraries, TellTheirVersions) {
  const LibraryVersions own = own_libraries();
  EXPECT_THAT(own.onednn, MatchesRegex("[0-9]+\\.[0-9]+\\.[0-9]+"));
  EXPECT_THAT(cpu_kernels(), HasSubstr("oneDNN " + own.onednn + ","));
  EXPECT_THAT(cpu_instruction_sets(), Not(HasSubstr(own.onednn)));
  EXPECT_THAT(own.open_mpi, MatchesRegex("[0-9]+\\.[0-9]+\\.[0-9]+.*"));
  EXPECT_EQ(mpi_library(), "Open MPI v" + own.open_mpi);
  EXPECT_THAT(own.sentencepiece, MatchesRegex("[0-9]+\\.[0-9]+\\.[0-9]+.*"));
  EXPECT_EQ(own.glibc, ::gnu_get_libc_version());
}

TEST(OwnLibraries, AnotherMpiKeepsItsName) {
  EXPECT_EQ(open_mpi_version("Open MPI v5.0.7"), "5.0.7");
  EXPECT_EQ(open_mpi_version("MPICH Version: 4.0.2"), "MPICH Version: 4.0.2");
}

}  // namespace
}  // namespace babelring
