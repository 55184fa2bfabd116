#include "nmt/checkpoint/safetensors.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <cstring>
#include <fstream>

#include "base/failure.h"

namespace babelring {
namespace {

namespace fs = std::filesystem;
using testing::HasSubstr;
using testing::ThrowsMessage;

class SafetensorsTest : public testing::Test {
 protected:
  SafetensorsTest() { fs::create_directories(folder_); }
  ~SafetensorsTest() override { fs::remove_all(folder_); }

  /// Writes a file with this header and N bytes of data.
  void write_raw(const std::string& header, std::size_t data_bytes) const {
    std::string text(8, '\0');
    for (std::size_t i = 0; i < 8; ++i) text[i] = static_cast<char>(header.size() >> (8 * i) & 0xffU);
    std::ofstream(file_, std::ios::binary) << text << header << std::string(data_bytes, 'd');
  }

  const fs::path folder_ = testing::TempDir() + "safetensors_test." + std::to_string(::getpid());
  const fs::path file_ = folder_ / "x.safetensors";
  const std::vector<float> floats_ = {1, -2, 3.5F, 0, 1e-30F, 1e30F};
  const std::vector<std::int32_t> integers_ = {7, -7};
  const std::vector<BFloat16> halves_ = {BFloat16(0.5F), BFloat16(2), BFloat16(-1)};
};

TEST_F(SafetensorsTest, RoundTrip) {
  const std::vector<NamedTensor> tensors = {{"a.weight", ConstTensor(floats_.data(), {2, 3}, DType::f32)},
                                            {"steps", ConstTensor(integers_.data(), {2}, DType::i32)},
                                            {"empty", ConstTensor(floats_.data(), {0, 5}, DType::f32)},
                                            {"scalar", ConstTensor(floats_.data(), {}, DType::f32)},
                                            {"half", ConstTensor(halves_.data(), {1, 1, 3}, DType::bf16)}};
  const CheckpointFile written = write_safetensors(file_, tensors);
  EXPECT_EQ(written.name, "x.safetensors");
  EXPECT_EQ(written.size, static_cast<std::int64_t>(fs::file_size(file_)));
  EXPECT_EQ(written.sha256, sha256_file(file_));

  const SafetensorsReader reader(file_);
  ASSERT_EQ(reader.entries().size(), 5U);
  EXPECT_EQ(reader.entries()[0].begin % 64, 0U) << "the data is aligned";
  for (const NamedTensor& expected : tensors) {
    const ConstTensor found = reader.tensor(expected.name, expected.tensor.shape, expected.tensor.dtype);
    EXPECT_EQ(std::memcmp(found.data, expected.tensor.data, expected.tensor.bytes()), 0) << expected.name;
  }
}

TEST_F(SafetensorsTest, KnownBytes) {
  const float one = 1;
  write_safetensors(file_, std::vector<NamedTensor>{{"w", ConstTensor(&one, {1}, DType::f32)}});
  std::string expected = R"({"w":{"dtype":"F32","shape":[1],"data_offsets":[0,4]}})";
  expected.resize(56, ' ');
  expected = std::string("\x38\0\0\0\0\0\0\0", 8) + expected + std::string("\0\0\x80\x3f", 4);
  EXPECT_EQ(read_file(file_), expected);
}

TEST_F(SafetensorsTest, MetadataOfOtherProgramsIsIgnored) {
  write_raw(R"({"__metadata__":{"format":"pt"},"w":{"dtype":"F32","shape":[1],"data_offsets":[0,4]}})", 4);
  EXPECT_EQ(SafetensorsReader(file_).entries().size(), 1U);
}

TEST_F(SafetensorsTest, FileWithoutTensors) {
  write_safetensors(file_, {});
  EXPECT_TRUE(SafetensorsReader(file_).entries().empty());
}

TEST_F(SafetensorsTest, UnsupportedTypesAreListedOnly) {
  write_raw(
      R"({"b":{"dtype":"U8","shape":[1],"data_offsets":[8,9]},"a":{"dtype":"F64","shape":[1],"data_offsets":[0,8]},)"
      R"("c":{"dtype":"I32","shape":[1,1,1,1,1],"data_offsets":[9,13]},"d":{"dtype":"F32","shape":[1],"data_offsets":[13,17]}} )",
      17);
  const SafetensorsReader reader(file_);
  EXPECT_EQ(reader.entries()[0].name, "a");
  EXPECT_EQ(reader.bytes(reader.entries()[1]).size(), 1U);
  EXPECT_THAT([&] { reader.tensor("a"); },
              ThrowsMessage<Failure>(HasSubstr("tensor 'a' is F64, expected F32, BF16, I32 or I8")));
  EXPECT_THAT([&] { reader.tensor("c"); }, ThrowsMessage<Failure>(HasSubstr("'c' has 5 extents, expected at most 4")));
  EXPECT_THAT([&] { reader.tensor("e"); }, ThrowsMessage<Failure>("safetensors " + file_.string() + ": no tensor 'e'"));
  EXPECT_THAT([&] { reader.tensor("d"); }, ThrowsMessage<Failure>(HasSubstr("'d' is not aligned to 4 bytes")));
}

TEST_F(SafetensorsTest, WrongShapeOrTypeNamesBoth) {
  write_safetensors(file_, std::vector<NamedTensor>{{"w", ConstTensor(floats_.data(), {2, 3}, DType::f32)}});
  const SafetensorsReader reader(file_);
  const std::string head = "safetensors " + file_.string() + ": tensor 'w' is f32 [2, 3], expected ";
  EXPECT_THAT([&] { reader.tensor("w", {3, 2}); }, ThrowsMessage<Failure>(head + "f32 [3, 2]"));
  EXPECT_THAT([&] { reader.tensor("w", {2, 3}, DType::bf16); }, ThrowsMessage<Failure>(head + "bf16 [2, 3]"));
}

struct BadHeader {
  const char* header;
  std::size_t data_bytes;
  const char* message;
};

class BadHeaderTest : public SafetensorsTest, public testing::WithParamInterface<BadHeader> {};

TEST_P(BadHeaderTest, IsRefusedWithFileAndReason) {
  write_raw(GetParam().header, GetParam().data_bytes);
  EXPECT_THAT([&] { SafetensorsReader reader(file_); },
              ThrowsMessage<Failure>(
                  testing::AllOf(HasSubstr(file_.string()), HasSubstr("byte"), HasSubstr(GetParam().message))));
}

INSTANTIATE_TEST_SUITE_P(
    Headers, BadHeaderTest,
    testing::Values(
        BadHeader{"", 0, "header, byte 8: JSON, byte 0: incomplete"}, BadHeader{"[]", 0, "expected a JSON object"},
        BadHeader{"{}", 4, "the last tensor ends here, the file at byte 14"},
        BadHeader{R"({"w":5})", 0, "tensor 'w': expected dtype, shape and data_offsets"},
        BadHeader{R"({"w":{"dtype":"F32","shape":[1],"offsets":[0,4]}})", 4, "data_offsets is absent"},
        BadHeader{R"({"w":{"dtype":"F31","shape":[1],"data_offsets":[0,4]}})", 4, "unknown dtype \"F31\""},
        BadHeader{R"({"w":{"dtype":3,"shape":[1],"data_offsets":[0,4]}})", 4, "unknown dtype 3"},
        BadHeader{R"({"w":{"dtype":"F32","shape":1,"data_offsets":[0,4]}})", 4, "shape: expected an array"},
        BadHeader{R"({"w":{"dtype":"F32","shape":[-1],"data_offsets":[0,4]}})", 4,
                  "shape holds -1, expected an integer"},
        BadHeader{R"({"w":{"dtype":"F32","shape":[1.5],"data_offsets":[0,4]}})", 4, "shape holds 1.5"},
        BadHeader{R"({"w":{"dtype":"F32","shape":[4611686018427387904,4],"data_offsets":[0,4]}})", 4,
                  "shape overflows"},
        BadHeader{R"({"w":{"dtype":"F32","shape":[1],"data_offsets":[0]}})", 4, "data_offsets [0] do not lie"},
        BadHeader{R"({"w":{"dtype":"F32","shape":[1],"data_offsets":[4,0]}})", 4, "data_offsets [4, 0] do not lie"},
        BadHeader{R"({"w":{"dtype":"F32","shape":[2],"data_offsets":[0,8]}})", 4, "do not lie in the 4 bytes of data"},
        BadHeader{R"({"w":{"dtype":"F32","shape":[2],"data_offsets":[0,4]}})", 4,
                  "takes 8 bytes, data_offsets [0, 4] hold 4"},
        BadHeader{R"({"w":{"dtype":"F32","shape":[1],"data_offsets":[4,8]}})", 8,
                  "tensor 'w' begins here, expected at"},
        BadHeader{
            R"({"v":{"dtype":"F32","shape":[1],"data_offsets":[0,4]},"w":{"dtype":"F32","shape":[1],"data_offsets":[2,6]}})",
            6, "tensor 'w' begins here, expected at"},
        BadHeader{
            R"({"w":{"dtype":"F32","shape":[1],"data_offsets":[0,4]},"w":{"dtype":"F32","shape":[1],"data_offsets":[0,4]}})",
            4, "duplicate member 'w'"},
        BadHeader{R"({"__metadata__":{"a":1}})", 0, "__metadata__': expected strings only"},
        BadHeader{R"({"__metadata__":[]})", 0, "__metadata__': expected an object"}));

TEST_F(SafetensorsTest, ShortOrInconsistentFilesAreRefused) {
  std::ofstream(file_, std::ios::binary) << "1234567";
  EXPECT_THAT([&] { SafetensorsReader reader(file_); },
              ThrowsMessage<Failure>(HasSubstr("7 bytes, expected at least 8")));
  std::ofstream(file_, std::ios::binary) << std::string(8, '\xff') << "{}";
  EXPECT_THAT([&] { SafetensorsReader reader(file_); },
              ThrowsMessage<Failure>(HasSubstr("byte 0: header of 18446744073709551615 bytes in a file of 10")));
  fs::remove(file_);
  EXPECT_THROW(SafetensorsReader reader(file_), Failure);
}

TEST_F(SafetensorsTest, WriterEnforcesItsLayout) {
  const ConstTensor two(floats_.data(), {2}, DType::f32);
  const auto layout = [](std::string name, DType dtype = DType::f32) {
    return SafetensorsWriter::Layout{.name = std::move(name), .shape = {2}, .dtype = dtype};
  };
  {
    SafetensorsWriter writer(file_, {layout("a"), layout("b")});
    writer.add(two);
    EXPECT_THAT([&] { writer.add(ConstTensor(floats_.data(), {3}, DType::f32)); },
                ThrowsMessage<Failure>(HasSubstr("tensor 'b' is f32 [3], expected contiguous f32 [2]")));
    EXPECT_THAT([&] { writer.finish(); }, ThrowsMessage<Failure>(HasSubstr("'b' was declared and not written")));
    writer.add(two);
    EXPECT_THAT([&] { writer.add(two); }, ThrowsMessage<Failure>(HasSubstr("all 2 tensors are written")));
  }
  EXPECT_TRUE(fs::is_empty(folder_)) << "an unfinished file leaves nothing behind";
  EXPECT_THAT([&] { SafetensorsWriter(file_, {layout("a"), layout("a")}); },
              ThrowsMessage<Failure>(HasSubstr("expected distinct names, found 'a' again")));
  EXPECT_THAT([&] { SafetensorsWriter(file_, {layout("a", DType::bf16), layout("b")}); },
              ThrowsMessage<Failure>(HasSubstr("'b' follows a narrower type")));
  EXPECT_TRUE(fs::is_empty(folder_));
}

}  // namespace
}  // namespace babelring
