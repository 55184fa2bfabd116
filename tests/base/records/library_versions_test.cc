#include "base/records/library_versions.h"

#include <gmock/gmock.h>

#include <boost/json/object.hpp>

namespace babelring {
namespace {

using testing::ElementsAre;
using testing::IsEmpty;

const LibraryVersions older = {.onednn = "2.6.3", .open_mpi = "4.1.4", .sentencepiece = "0.1.97", .glibc = "2.36"};
const LibraryVersions newer = {.onednn = "3.7.2", .open_mpi = "5.0.7", .sentencepiece = "0.2.0", .glibc = "2.41"};

TEST(LibraryVersions, AreWrittenAndRead) {
  EXPECT_EQ(to_text(to_json(older)),
            R"({"onednn":"2.6.3","open_mpi":"4.1.4","sentencepiece":"0.1.97","glibc":"2.36"})");
  EXPECT_EQ(library_versions_from_json(to_json(older)), older);
  EXPECT_EQ(to_text(to_json({.onednn = "2.6.3"})), R"({"onednn":"2.6.3"})");
}

TEST(LibraryVersions, MalformedOnesAreUnknown) {
  EXPECT_EQ(library_versions_from_json(nullptr), LibraryVersions());
  EXPECT_EQ(library_versions_from_json(
                json::object{{"onednn", 2}, {"open_mpi", std::string(65, '1')}, {"glibc", "2.36"}, {"other", "1"}}),
            LibraryVersions{.glibc = "2.36"});
}

TEST(LibraryVersions, AreToldInOneLine) {
  EXPECT_EQ(text_of(older), "oneDNN 2.6.3, Open MPI 4.1.4, SentencePiece 0.1.97, glibc 2.36");
  EXPECT_EQ(text_of({.open_mpi = "4.1.4"}), "Open MPI 4.1.4");
  EXPECT_EQ(text_of({}), "");
}

TEST(LibraryVersions, AreMergedOverRanks) {
  LibraryVersions third = older;
  third.onednn = "3.7.2";
  EXPECT_EQ(text_of(merged({older, {}, third, older})),
            "oneDNN 2.6.3 / 3.7.2, Open MPI 4.1.4, SentencePiece 0.1.97, glibc 2.36");
  EXPECT_EQ(merged({}), LibraryVersions());
}

TEST(LibraryVersions, DifferWhereBothAreKnown) {
  EXPECT_THAT(library_differences(older, newer),
              ElementsAre("oneDNN differs: 2.6.3 / 3.7.2", "Open MPI differs: 4.1.4 / 5.0.7",
                          "SentencePiece differs: 0.1.97 / 0.2.0", "glibc differs: 2.36 / 2.41"));
  EXPECT_THAT(library_differences(older, older), IsEmpty());
  EXPECT_THAT(library_differences(older, {.glibc = "2.41"}), ElementsAre("glibc differs: 2.36 / 2.41"));
}

}  // namespace
}  // namespace babelring
