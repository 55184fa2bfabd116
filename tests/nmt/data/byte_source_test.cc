#include "nmt/data/byte_source.h"

#include <bzlib.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <lzma.h>
#include <unistd.h>
#include <zstd.h>

#include <array>
#include <thread>

#include "base/failure.h"
#include "base/files.h"
#include "base/gzip.h"
#include "nmt/data/line_reader.h"
#include "tests/nmt/data/temporary_folder.h"

namespace babelring {
namespace {

using namespace std::string_literals;
using testing::HasSubstr;

std::string xz(const std::string& text, lzma_options_lzma* options = nullptr) {
  lzma_options_lzma preset;
  EXPECT_FALSE(lzma_lzma_preset(&preset, 6));
  std::array filters = {lzma_filter{LZMA_FILTER_LZMA2, options != nullptr ? options : &preset},
                        lzma_filter{LZMA_VLI_UNKNOWN, nullptr}};
  std::string out(text.size() + 4096, '\0');
  std::size_t size = 0;
  EXPECT_EQ(lzma_stream_buffer_encode(filters.data(), LZMA_CHECK_CRC64, nullptr,
                                      reinterpret_cast<const std::uint8_t*>(text.data()), text.size(),
                                      reinterpret_cast<std::uint8_t*>(out.data()), &size, out.size()),
            LZMA_OK);
  return out.substr(0, size);
}

std::string zstd(const std::string& text, int window_log = 0) {
  std::string out(text.size() + 4096, '\0');
  ZSTD_CCtx* context = ZSTD_createCCtx();
  ZSTD_CCtx_setParameter(context, ZSTD_c_checksumFlag, 1);
  if (window_log > 0) {
    ZSTD_CCtx_setParameter(context, ZSTD_c_contentSizeFlag, 0);
    ZSTD_CCtx_setParameter(context, ZSTD_c_windowLog, window_log);
  }
  // As a stream whose size is unknown: the frame says the window.
  ZSTD_inBuffer input{text.data(), text.size(), 0};
  ZSTD_outBuffer output{out.data(), out.size(), 0};
  EXPECT_EQ(ZSTD_compressStream2(context, &output, &input, ZSTD_e_flush), 0U);
  EXPECT_EQ(ZSTD_compressStream2(context, &output, &input, ZSTD_e_end), 0U);
  ZSTD_freeCCtx(context);
  return out.substr(0, output.pos);
}

std::string bzip2(const std::string& text) {
  std::string out(text.size() + 4096, '\0');
  auto size = static_cast<unsigned>(out.size());
  std::string copy = text;
  EXPECT_EQ(BZ2_bzBuffToBuffCompress(out.data(), &size, copy.data(), static_cast<unsigned>(copy.size()), 9, 0, 0),
            BZ_OK);
  return out.substr(0, size);
}

struct Format {
  const char* name;
  std::string (*pack)(const std::string&);
};
constexpr std::array packers = {
    Format{"gzip", [](const std::string& text) { return gzip(text); }},
    Format{"xz", [](const std::string& text) { return xz(text); }},
    Format{"zstd", [](const std::string& text) { return zstd(text); }},
    Format{"bzip2", [](const std::string& text) { return bzip2(text); }},
};

/// The text of a file, or the error.
std::string unpacked(const std::filesystem::path& file) {
  ByteSource source(file);
  std::string text;
  std::array<char, 1000> room{};
  while (true) {
    const auto count = source.read(room);
    if (!count) return "error: " + count.error();
    if (*count == 0) return text;
    text.append(room.data(), *count);
  }
}

std::string long_text() {
  std::string text;
  for (int i = 0; i < 60'000; ++i) text += std::to_string(i * 7919) + (i % 10 == 0 ? "\n" : " ");
  return text;
}

TEST(ByteSource, UnpacksMembersByContentAndIgnoresPadding) {
  const TemporaryFolder folder;
  const std::string text = long_text();
  for (const auto& [name, pack] : packers) {
    SCOPED_TRACE(name);
    EXPECT_EQ(unpacked(folder.write("one.txt", pack(text))), text);
    EXPECT_EQ(unpacked(folder.write("one.txt", pack(""))), "");
    EXPECT_EQ(unpacked(folder.write("many", pack("ä\n") + pack("") + pack(text) + std::string(300'000, '\0'))),
              "ä\n" + text);
    ByteSource source(folder / "many");
    EXPECT_EQ(source.compression(), "");
    EXPECT_EQ(source.look(1), "\xc3");
    EXPECT_EQ(source.compression(), name);
  }
  EXPECT_EQ(unpacked(folder.write("a", xz("a") + std::string(8, '\0') + xz("b"))), "ab") << "padding between streams";
  const std::string skippable = "\x5a*M\x18\x03\0\0\0xyz"s;
  EXPECT_EQ(unpacked(folder.write("a", skippable + zstd("a") + skippable + zstd("b") + skippable)), "ab");
}

TEST(ByteSource, LooksAheadWithoutReading) {
  const TemporaryFolder folder;
  const std::string text = long_text();
  for (const std::string& content : {text, zstd(text)}) {
    ByteSource source(folder.write("a", content));
    EXPECT_EQ(source.look(10), text.substr(0, 10));
    EXPECT_EQ(source.look(400'000), text.substr(0, 400'000));
    EXPECT_EQ(source.look(1 << 20), text);
    std::array<char, 3> room{};
    EXPECT_EQ(source.read(room).value(), 3U);
    EXPECT_EQ(std::string(room.data(), 3), text.substr(0, 3));
    EXPECT_EQ(source.look(5).substr(0, 5), text.substr(3, 5));
  }
}

TEST(ByteSource, LooksUpToAnErrorAndReadsIt) {
  const TemporaryFolder folder;
  ByteSource source(folder.write("a", gzip("text") + "x"));
  EXPECT_EQ(source.look(100), "text");
  std::array<char, 10> room{};
  EXPECT_EQ(source.read(room).value(), 4U);
  EXPECT_THAT(source.read(room).error(), HasSubstr("damaged gzip data: byte 0x78"));
}

TEST(ByteSource, RefusesBytesAfterAMember) {
  const TemporaryFolder folder;
  for (const auto& [name, pack] : packers) {
    const std::string first = pack("a\nb\n"), second = pack("c\n"), zeros(300'000, '\0');
    for (const auto& [rest, byte, at] :
         {std::tuple("plain\n"s, 'p', first.size()), std::tuple(second.substr(0, 1), second[0], first.size()),
          std::tuple(second + "x", 'x', first.size() + second.size()),
          std::tuple(zeros + "x", 'x', first.size() + zeros.size()),
          std::tuple(zeros + second, second[0], first.size() + zeros.size())}) {
      if (name == "xz"s && rest == zeros + second) continue;  // stream padding
      EXPECT_THAT(unpacked(folder.write("a", first + rest)),
                  fmt::format("error: damaged {} data: byte {:#04x} at offset {}, after a complete member; expected "
                              "another member, zeros or the end of the file",
                              name, static_cast<unsigned char>(byte), at));
    }
  }
  EXPECT_THAT(unpacked(folder.write("a", gzip("a") + xz("b"))), HasSubstr("damaged gzip data: byte 0xfd at offset"));
}

TEST(ByteSource, NamesTruncatedAndDamagedData) {
  const TemporaryFolder folder;
  const std::string text = long_text().substr(0, 3000);
  for (const auto& [name, pack] : packers) {
    const std::string whole = pack(text);
    for (std::size_t size = 12; size < whole.size(); size += 41) {
      EXPECT_EQ(unpacked(folder.write("a", whole.substr(0, size))),
                fmt::format("error: damaged or truncated {} data: unexpected end of file", name))
          << size;
    }
    std::string bad = whole;
    bad[whole.size() / 2] ^= 0x10;
    EXPECT_THAT(unpacked(folder.write("a", bad)),
                HasSubstr(fmt::format("error: damaged or truncated {} data: ", name)));
    for (std::size_t at = 0; at < whole.size(); at += 17) {
      bad = whole;
      bad[at] ^= 0x55;
      (void)unpacked(folder.write("a", bad));  // returns, without a crash
    }
  }
}

TEST(ByteSource, RefusesWindowsOverItsMemory) {
  const TemporaryFolder folder;
  lzma_options_lzma options;
  ASSERT_FALSE(lzma_lzma_preset(&options, 6));
  options.dict_size = 1 << 30;
  EXPECT_EQ(unpacked(folder.write("a", xz("text", &options))),
            "error: xz data: its window needs 1025 MiB of memory, expected at most 256: unpack it "
            "first, by xz -d");
  options.dict_size = 128 << 20;
  EXPECT_EQ(unpacked(folder.write("a", xz("text", &options))), "text");
  EXPECT_EQ(unpacked(folder.write("a", zstd("text", 28))),
            "error: zstd data: its window is over 128 MiB: unpack it first, by zstd -d --long=31");
  EXPECT_EQ(unpacked(folder.write("a", zstd("text", 27))), "text");
}

TEST(ByteSource, TakesTextThatBeginsLikeAMagicAsText) {
  const TemporaryFolder folder;
  for (const char* text : {"BZh\n", "BZh91AY&", "BZh0AY&SY....", "P*M", "P", "\x1f", "(", "_*\n"}) {
    EXPECT_EQ(unpacked(folder.write("a", text)), text);
  }
}

TEST(ByteSource, LinesOfCompressedPipesComeOnceTheyAreComplete) {
  for (const auto& [name, pack] : packers) {
    SCOPED_TRACE(name);
    int ends[2];
    ASSERT_EQ(pipe(ends), 0);
    const FileDescriptor out(ends[0]);
    std::thread writer([&, packed = pack("first\n") + pack("second\n")] {
      const FileDescriptor in(ends[1]);
      for (const char byte : packed) EXPECT_EQ(write(in.get(), &byte, 1), 1);
    });
    LineReader reader(out.get(), "a pipe");
    RawLine line;
    EXPECT_TRUE(reader.next(line));
    EXPECT_EQ(line.text, "first");
    EXPECT_TRUE(reader.next(line));
    EXPECT_EQ(line.text, "second");
    EXPECT_FALSE(reader.next(line));
    writer.join();
  }
}

TEST(ByteSource, ErrorsOfLinesNameFileAndLastGoodLine) {
  const TemporaryFolder folder;
  const std::string text = long_text();
  for (const auto& [name, pack] : packers) {
    std::string whole = pack(text);
    const auto file = folder.write("a", whole.substr(0, whole.size() - 9));
    LineReader reader(file);
    RawLine line;
    std::int64_t good = 0;
    auto read = reader.read(line);
    for (; read && *read; read = reader.read(line)) ++good;
    ASSERT_FALSE(read);
    EXPECT_EQ(read.error(),
              fmt::format("cannot read {} after line {}: damaged or truncated {} data: unexpected end of file",
                          file.string(), good, name));
    EXPECT_GE(good, 5000) << "all whole lines are returned";
    for (const auto& [outer, pack_again] : packers) {
      LineReader twice(folder.write("b", pack_again(pack("a\n"))));
      const auto refused = twice.read(line);
      ASSERT_FALSE(refused);
      EXPECT_THAT(refused.error(), HasSubstr(fmt::format("b is {} data inside {} data, expected UTF-8 text, plain or "
                                                         "compressed by gzip, xz, zstd or bzip2: unpack it once",
                                                         name, outer)));
    }
  }
}

}  // namespace
}  // namespace babelring
