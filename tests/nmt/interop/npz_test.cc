#include "nmt/interop/npz.h"

#include <gmock/gmock.h>

#include "base/failure.h"
#include "tests/nmt/data/temporary_folder.h"
#include "tests/nmt/interop/zip_builder.h"

namespace babelring {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using testing::ThrowsMessage;

std::span<const std::byte> view_of(const std::string& text) {
  return std::as_bytes(std::span(text));
}

std::vector<NpzArray> arrays_of(const std::string& archive) {
  return NpzReader(view_of(archive), "m.npz").arrays();
}

void refuses(const std::string& archive, const std::string& words) {
  EXPECT_THAT([&] { arrays_of(archive); }, ThrowsMessage<Failure>(HasSubstr(words)));
}

std::string one_entry(const std::string& npy) {
  return ZipBuilder().add("a.npy", npy).archive();
}

const std::string header_of_six = "{'descr': '<f4', 'fortran_order': False, 'shape': (2, 3), }\n";
const std::string six = npy(header_of_six, std::string(24, 'x'));

TEST(NpzTest, ReadsStoredAndDeflatedArraysOfAllVersions) {
  const std::string halves = npy("{\"descr\": \"<f2\", \"fortran_order\": False, \"shape\": (4,)}\n", "abcdefgh", 2);
  for (const bool with_zip64 : {false, true}) {
    ZipBuilder zip;
    zip.with_zip64 = with_zip64;
    const std::string archive = zip.add("a.npy", six).add("b.c.npy", halves, {.is_deflated = true}).archive();
    const NpzReader reader(view_of(archive), "m.npz");
    ASSERT_EQ(reader.arrays().size(), 2U);
    const NpzArray &a = reader.arrays()[0], &b = reader.arrays()[1];
    EXPECT_EQ(a.name, "a");
    EXPECT_EQ(a.type, "<f4");
    EXPECT_THAT(a.shape, ElementsAre(2, 3));
    EXPECT_TRUE(a.is_in_place);
    EXPECT_EQ(static_cast<const void*>(a.bytes.data()), archive.data() + archive.find("xxxx"));
    EXPECT_EQ(a.bytes.size(), 24U);
    EXPECT_EQ(b.name, "b.c");
    EXPECT_EQ(b.type, "<f2");
    EXPECT_THAT(b.shape, ElementsAre(4));
    EXPECT_FALSE(b.is_in_place);
    EXPECT_EQ(std::string(reinterpret_cast<const char*>(b.bytes.data()), b.bytes.size()), "abcdefgh");
  }
  EXPECT_TRUE(arrays_of(ZipBuilder().archive()).empty());
}

TEST(NpzTest, RefusesEachPrefixWithOneLine) {
  const std::string whole = ZipBuilder().add("a.npy", six).add("b.npy", six, {.is_deflated = true}).archive();
  for (std::size_t size = 0; size < whole.size(); ++size) {
    try {
      arrays_of(whole.substr(0, size));
      ADD_FAILURE() << size;
    } catch (const Failure& failure) {
      EXPECT_THAT(failure.what(), HasSubstr("m.npz: "));
      EXPECT_EQ(std::string(failure.what()).find('\n'), std::string::npos) << failure.what();
    }
  }
}

TEST(NpzTest, ChangedBytesAreRefusedOrRead) {
  const std::string whole = ZipBuilder().add("a.npy", six).add("b.npy", six, {.is_deflated = true}).archive();
  int refused = 0;
  for (std::size_t at = 0; at < whole.size(); ++at) {
    for (const char change : {'\x01', '\x80', '\xff'}) {
      std::string changed = whole;
      changed[at] = static_cast<char>(changed[at] ^ change);
      try {
        arrays_of(changed);
      } catch (const Failure& failure) {
        ++refused;
      }
    }
  }
  EXPECT_GT(refused, static_cast<int>(whole.size() * 2)) << "dates and the like may differ";
}

TEST(NpzTest, RefusesDamageByEntry) {
  std::string changed = one_entry(six);
  changed[changed.find("xxxx")] = 'y';
  refuses(changed, "m.npz: a.npy is damaged: its CRC is another");
  refuses(ZipBuilder().add("a.npy", six, {.is_deflated = true, .size = 17}).archive(),
          "a.npy is damaged: it does not inflate to its 17 bytes");
  refuses(ZipBuilder().add("a.npy", six, {.is_deflated = true, .size = 1 << 20}).archive(),
          " bytes in the archive and 1048576 as a file, which cannot be");
  refuses(ZipBuilder().add("a.npy", six, {.size = 17}).archive(), "which cannot be");
  refuses(ZipBuilder().add("a.npy", six).add("a.npy", six).archive(), "m.npz: a.npy is there twice");
  refuses(ZipBuilder().add("a.npy", six, {.flags = 1}).archive(), "a.npy is encrypted");
  refuses(ZipBuilder().add("a.npy", six, {.method = 12}).archive(), "a.npy is compressed by method 12");
  refuses(ZipBuilder().add("a.npy", six, {.name_in_header = "b.npy"}).archive(),
          "a.npy has another name in its header");
  refuses(ZipBuilder().add("a.txt", six).archive(), "m.npz: a.txt: expected arrays only");
  ZipBuilder more;
  more.more_entries = 1;
  refuses(more.add("a.npy", six).archive(), "the directory has 1 entries, its end says 2");
}

TEST(NpzTest, RefusesArraysThatCannotBeRead) {
  const auto refuses_header = [](const std::string& header, const std::string& words, unsigned version = 1) {
    refuses(one_entry(npy(header, std::string(24, 'x'), version)), "m.npz: a.npy: found " + words);
  };
  refuses_header("{'descr': '<f4', 'fortran_order': True, 'shape': (2, 3), }", "fortran_order True, expected False");
  refuses_header("{'descr': '>f4', 'fortran_order': False, 'shape': (2, 3), }",
                 "elements of type '>f4', expected little-endian numbers");
  refuses_header("{'descr': [('a', '<f4')], 'fortran_order': False, 'shape': (2, 3), }", "elements of type [('a'");
  refuses_header("{'descr': '|O', 'fortran_order': False, 'shape': (6,), }", "elements of type '|O'");
  refuses_header("{'descr': '<f4', 'fortran_order': False, 'shape': (2, 4), }",
                 "24 bytes, expected 32, of shape [2, 4] and type <f4");
  refuses_header("{'descr': '<f4', 'fortran_order': False, 'shape': (4611686018427387904, 4), }", "24 bytes, expected");
  for (const char* shape : {"(2, -3)", "2", "(2 3)", "(a,)", "(99999999999999999999,)"}) {
    refuses_header(fmt::format("{{'descr': '<f4', 'fortran_order': False, 'shape': {}, }}", shape), "the header {");
  }
  refuses_header("{'descr': '<f4', 'shape': (2, 3), }", "the header {'descr'");
  refuses_header(header_of_six, "version 4 of .npy, expected 1, 2 or 3", 4);
  refuses(one_entry("something else than an array"), "m.npz: a.npy: found no .npy file");
  refuses(one_entry(six.substr(0, 30)), "found a header that is cut, expected a whole one");
  refuses(one_entry(six.substr(0, 9)), "found no .npy file");
}

TEST(NpzTest, WritesWhatItReads) {
  const TemporaryFolder folder;
  AtomicFile file(folder.path() / "m.npz");
  NpzWriter writer(file);
  writer.add("Wemb", "<f4", {2, 3}, view_of(std::string(24, 'x')));
  writer.add("special:model.yml", "<i1", {5}, view_of("a: b\n"));
  writer.finish();
  file.commit();
  const std::string archive = read_file(folder.path() / "m.npz");
  const NpzReader reader(view_of(archive), "m.npz");
  ASSERT_EQ(reader.arrays().size(), 2U);
  EXPECT_THAT(reader.arrays()[0].shape, ElementsAre(2, 3));
  EXPECT_THAT(reader.arrays()[1].shape, ElementsAre(5));
  EXPECT_EQ(reader.arrays()[1].name, "special:model.yml");
  EXPECT_EQ(archive.find("xxxx"), 30U + 8 + 80) << "header of zip, name, header of npy";
}

}  // namespace
}  // namespace babelring
