#include "nmt/data/corpus.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <fstream>

#include "base/failure.h"
#include "tests/nmt/data/temporary_folder.h"

namespace babelring {
namespace {

/// An id file that another process changes while it is mapped.
class IdFileInUse : public testing::Test {
 protected:
  IdFileInUse() {
    IdFileWriter writer(file_);
    const std::vector<std::int32_t> sentence(2000, 7);
    for (int i = 0; i < 10; ++i) writer.add(sentence);
    writer.finish();
  }
  TemporaryFolder folder_;
  const std::filesystem::path file_ = folder_.path() / "train.source.ids";
};

TEST_F(IdFileInUse, TruncatedIsNamed) {
  EXPECT_EXIT(
      {
        const IdSequences ids(file_, 8);
        std::filesystem::resize_file(file_, 0);
        static_cast<void>(ids[5]);
      },
      testing::ExitedWithCode(1), "error: .*train.source.ids: cannot be read any more: it was truncated");
}

TEST_F(IdFileInUse, OverwrittenIsNamed) {
  const IdSequences ids(file_, 8);
  const auto bytes = std::filesystem::file_size(file_);
  std::ofstream(file_, std::ios::in | std::ios::binary) << std::string(bytes, '\x55');
  EXPECT_THAT([&] { static_cast<void>(ids.length(3)); },
              testing::ThrowsMessage<Failure>(testing::HasSubstr("train.source.ids: overwritten while in use")));
  EXPECT_THROW(ids[3], Failure);
}

/// The guard of a destroyed mapping must not apply to a later mapping at the same address.
TEST_F(IdFileInUse, LaterMappingIsNamedItself) {
  EXPECT_EXIT(
      {
        {
          const IdSequences gone(file_, 8);
        }
        const auto other = folder_.path() / "other.ids";
        std::filesystem::copy_file(file_, other);
        const IdSequences ids(other, 8);
        std::filesystem::resize_file(other, 0);
        static_cast<void>(ids[5]);
      },
      testing::ExitedWithCode(1), "error: .*other.ids: cannot be read");
}

}  // namespace

}  // namespace babelring
