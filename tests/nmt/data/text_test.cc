#include "nmt/data/text.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>
#include <zlib.h>

#include <utility>
#include <vector>

#include "base/failure.h"
#include "base/files.h"
#include "nmt/data/line_reader.h"
#include "tests/nmt/data/temporary_folder.h"

namespace babelring {
namespace {

using namespace std::string_literals;
using namespace std::string_view_literals;

TEST(CutText, EndsWithACharacter) {
  for (const auto& [bytes, expected] : std::vector<std::pair<std::size_t, std::string>>{
           {0, ""}, {1, "a"}, {2, "a"}, {3, "a"}, {4, "a€"}, {5, "a€b"}, {9, "a€b"}}) {
    std::string text = "a€b";
    cut_text(text, bytes);
    EXPECT_EQ(text, expected) << bytes;
  }
}

TEST(TextTest, FindsInvalidUtf8) {
  constexpr auto nowhere = std::string_view::npos;
  EXPECT_EQ(find_invalid_utf8("aäß€𝄞"), nowhere);
  EXPECT_EQ(find_invalid_utf8("a\xff"), 1U);
  EXPECT_EQ(find_invalid_utf8("ab\xc3"), 2U);            // truncated
  EXPECT_EQ(find_invalid_utf8("\xc0\x80"), 0U);          // overlong NUL
  EXPECT_EQ(find_invalid_utf8("\xe0\x80\x80"), 0U);      // overlong
  EXPECT_EQ(find_invalid_utf8("x\xed\xa0\x80"), 1U);     // surrogate
  EXPECT_EQ(find_invalid_utf8("\xf4\x90\x80\x80"), 0U);  // above U+10FFFF
  EXPECT_EQ(find_invalid_utf8("\xf4\x8f\xbf\xbf"), nowhere);
}

TEST(TextTest, ReplacesInvalidUtf8) {
  std::string text =
      "a\xff\xc3"
      "b\xe2\x82€";
  EXPECT_EQ(replace_invalid_utf8(text), 4);
  EXPECT_EQ(text, "a\ufffd\ufffdb\ufffd\ufffd€");
  EXPECT_EQ(replace_invalid_utf8(text), 0);
}

TEST(TextTest, FindsControlCharacters) {
  EXPECT_EQ(find_control("a\tb\u00a0c\u0085d"), std::string_view::npos);
  EXPECT_EQ(find_control("a\0b"sv), 1U);
  EXPECT_EQ(find_control("ab\x1b[0m"), 2U);
  EXPECT_EQ(find_control("\x7f"), 0U);
  EXPECT_EQ(find_control("a\u0080"), 1U);
  EXPECT_EQ(find_control("äb\u009f"), 3U);
}

TEST(TextTest, NormalizesSpacesAndNothingElse) {
  EXPECT_EQ(normalize_spaces("  a\t\u00a0 b\u3000"), "a b");
  EXPECT_EQ(normalize_spaces(" \u2009 "), "");
  EXPECT_EQ(normalize_spaces("a\u2028b\u2029c\u0085d\u2028"), "a b c d");
  EXPECT_EQ(normalize_spaces("½ … é"), "½ … é");
}

TEST(TextTest, KnowsTextInWhichNothingCanBeSeen) {
  for (const char* invisible : {"", " ", "\u200b", "\ufeff", "\u00ad", "\u200e\u200f", "\u2060", "\u2028", "\u0085",
                                "\u200d \u200c", "\u2581", "\u2800", "\u3164", "\ufe0f", "\u061c", "\U000e0020"}) {
    EXPECT_FALSE(is_visible(invisible)) << invisible;
    EXPECT_EQ(comparable(invisible), "") << invisible;
  }
  EXPECT_TRUE(is_visible("\u200b。"));
  EXPECT_TRUE(is_visible("\u0301")) << "a mark without its letter is drawn on a circle";
}

TEST(TextTest, TextsThatLookTheSameCompareEqual) {
  EXPECT_EQ(comparable("  plain\ttext "), "plain text");
  EXPECT_EQ(comparable("\u200bSoft\u00ad hy\u00adphen\ufeff"), "Soft hyphen");
  EXPECT_EQ(comparable("a\u2581b\u2028c"), "a b c");
  EXPECT_EQ(comparable("u\u0308ber"), comparable("über"));
  EXPECT_EQ(comparable("e\u200b\u0301"), comparable("é")) << "composed across what cannot be seen";
  EXPECT_EQ(comparable("ＡＢＣ１２３，"), "ABC123,");
  EXPECT_EQ(comparable("ｶﾞ"), "ガ");
  EXPECT_NE(comparable("a"), comparable("A"));
  EXPECT_NE(comparable("خواهم"), comparable("خوا هم"));
}

TEST(TextTest, CountsWordsInScriptsWithAndWithoutSpaces) {
  EXPECT_EQ(count_words(""), 0);
  EXPECT_EQ(count_words("a b c"), 3);
  EXPECT_EQ(count_words("naïve Größe – don't"), 4);
  EXPECT_EQ(count_words("나는 오래된 책을 샀다"), 4);
  EXPECT_EQ(count_words("是。"), 1);
  EXPECT_EQ(count_words("谢谢。"), 2);
  EXPECT_EQ(count_words("我在市场买了一本旧书。"), 7);        // 10 characters of Han
  EXPECT_EQ(count_words("我 在 市场 买了 一本 旧书 。"), 8);  // segmented text; a mark that stands alone counts
  EXPECT_EQ(count_words("他用Linux 6写COVID-19论文"), 8);     // 5 of Han, and Linux, 6, COVID, 19
  EXPECT_EQ(count_words("市場で古い本を買いました。"), 6);    // 4 of Han, 8 of Kana
  EXPECT_EQ(count_words("コンピューター"), 3);                // with the marks of long vowels
  EXPECT_EQ(count_words("ผมซื้อหนังสือเก่าที่ตลาด"), 5);             // 17 letters
  EXPECT_EQ(count_words("ຂ້ອຍຊື້ປຶ້ມເກົ່າ"), 3);                     // 10 letters
  EXPECT_EQ(count_words("ខ្ញុំបានទិញសៀវភៅចាស់"), 3);               // 11 letters
  EXPECT_EQ(count_words("စာအုပ်အဟောင်းတစ်အုပ်"), 3);                // 12 letters
  EXPECT_EQ(count_words("བོད་ཀྱི་སྐད་ཡིག"), 2);                    // 7 letters
}

TEST(TextTest, MeasuresTheLongestWord) {
  EXPECT_EQ(longest_word("a bcd ef"), 3);
  EXPECT_EQ(longest_word("größte"), 6);
  EXPECT_EQ(longest_word(std::string(5000, 'x') + " y"), 5000);
  std::string chinese;
  for (int i = 0; i < 2000; ++i) chinese += "书";
  EXPECT_EQ(longest_word(chinese + "abc"), 3) << "such a line is no word";
}

TEST(TextTest, HashesDifferWithTextLengthAndSeed) {
  EXPECT_EQ(hash_text("some longer text"), hash_text("some longer text"));
  EXPECT_NE(hash_text("some longer text"), hash_text("some longer texu"));
  EXPECT_NE(hash_text("a"), hash_text("a\0"sv));
  EXPECT_NE(hash_text(""), hash_text("\0"sv));
  EXPECT_NE(hash_text("a", 1), hash_text("a", 2));
}

std::vector<RawLine> read_all(const std::filesystem::path& file) {
  LineReader reader(file);
  std::vector<RawLine> lines;
  for (RawLine line; reader.next(line);) lines.push_back(line);
  return lines;
}

TEST(LineReaderTest, KnowsLineEndsByteOrderMarksAndMissingNewlines) {
  const TemporaryFolder folder;
  const auto lines = read_all(folder.write("a",
                                           "\xef\xbb\xbf"
                                           "one\r\n\ntwo\rx\n\0\nlast"sv));
  ASSERT_EQ(lines.size(), 5U);
  EXPECT_EQ(lines[0].text, "one");
  EXPECT_TRUE(lines[0].crlf);
  EXPECT_EQ(lines[1].text, "");
  EXPECT_FALSE(lines[1].crlf);
  EXPECT_EQ(lines[2].text, "two\rx");
  EXPECT_EQ(lines[3].text, "\0"sv);
  EXPECT_EQ(lines[4].text, "last");
  EXPECT_EQ(lines[4].number, 5);
  EXPECT_TRUE(read_all(folder.write("empty", "")).empty());
}

TEST(LineReaderTest, TruncatesOverLongLinesAndContinues) {
  const TemporaryFolder folder;
  const std::string longest(LineReader::longest_bytes, 'x');
  const auto lines =
      read_all(folder.write("a", longest + "\n" + longest + "\r\n" + longest + "y\n" + longest + longest + "\nz\n"));
  ASSERT_EQ(lines.size(), 5U);
  EXPECT_FALSE(lines[0].over_long);
  EXPECT_FALSE(lines[1].over_long);
  EXPECT_TRUE(lines[1].crlf);
  EXPECT_EQ(lines[1].text.size(), LineReader::longest_bytes);
  EXPECT_TRUE(lines[2].over_long);
  EXPECT_TRUE(lines[3].over_long);
  EXPECT_EQ(lines[3].text.size(), LineReader::longest_bytes);
  EXPECT_EQ(lines[4].text, "z");
  EXPECT_FALSE(lines[4].over_long);
}

std::filesystem::path write_gzip(const TemporaryFolder& folder, const std::string& name, const std::string& content) {
  const std::filesystem::path path = folder / name;
  const gzFile file = gzopen(path.c_str(), "wb");
  EXPECT_EQ(gzwrite(file, content.data(), static_cast<unsigned>(content.size())), static_cast<int>(content.size()));
  gzclose(file);
  return path;
}

TEST(LineReaderTest, DetectsGzipByContent) {
  const TemporaryFolder folder;
  const auto lines = read_all(write_gzip(folder, "plain.txt", "ä\nb\n"));
  ASSERT_EQ(lines.size(), 2U);
  EXPECT_EQ(lines[0].text, "ä");
}

TEST(LineReaderTest, ReadsSeveralGzipMembersAndIgnoresPadding) {
  const TemporaryFolder folder;
  const std::string first = read_file(write_gzip(folder, "1", "\ufeffa\nb")),
                    second = read_file(write_gzip(folder, "2", "c\n"));
  const auto lines = read_all(folder.write("both", first + second + std::string(512, '\0')));
  ASSERT_EQ(lines.size(), 2U);
  EXPECT_EQ(lines[0].text, "a");
  EXPECT_EQ(lines[1].text, "bc");
}

std::string error_of(const std::filesystem::path& file) {
  try {
    read_all(file);
  } catch (const Failure& failure) {
    return failure.what();
  }
  return "";
}

TEST(LineReaderTest, NamesDataThatIsNoText) {
  const TemporaryFolder folder;
  const std::string tar = std::string("a.txt").append(252, '\0') + "ustar  \0more"s;
  for (const auto& [bytes, name] :
       {std::pair("PK\x03\x04\x14"s,
                  "is a zip archive, expected UTF-8 text, plain or compressed by gzip, xz, zstd or bzip2: unpack"),
        std::pair("7z\xbc\xaf\x27\x1c\0"s, "is a 7z archive"),
        std::pair("\xff\xfeH\0i\0"s, "is UTF-16 text, expected UTF-8 text"),
        std::pair("\xfe\xff\0H\0i"s, "is UTF-16 text"), std::pair("H\0i\0\n\0"s, "is UTF-16 text"),
        std::pair("\0H\0i"s, "is UTF-16 text"), std::pair("\xff\xfe\0\0H\0\0\0"s, "is UTF-32 text"),
        std::pair(tar, "is a tar archive")}) {
    EXPECT_THAT(error_of(folder.write("a", bytes)), testing::HasSubstr((folder / "a").string() + " " + name));
  }
  for (const char* text : {"BZh\n", "PK\n", "B", "7zip\n", "]\n", "%PDF\n"}) {
    EXPECT_EQ(error_of(folder.write("a", text)), "") << text;
  }
  EXPECT_THAT(error_of(write_gzip(folder, "b", tar)), testing::HasSubstr("is a tar archive"));
}

TEST(LineReaderTest, RefusesMarkup) {
  const TemporaryFolder folder;
  const auto refused = [&](const std::string& content) {
    try {
      read_text_lines(folder.write("a", content));
    } catch (const Failure& failure) {
      return std::string(failure.what());
    }
    return std::string();
  };
  EXPECT_EQ(refused("<srcset setid=\"mini\">\n"),
            (folder / "a").string() +
                ":1: begins with '<srcset', so it is SGML or XML; expected plain text with a sentence on each line");
  EXPECT_THAT(refused("\ufeff<?xml version=\"1.0\"?>\n"), testing::HasSubstr(":1: begins with '<?xml'"));
  EXPECT_THAT(refused("\n  <!DOCTYPE mteval>\n"), testing::HasSubstr(":2: begins with '<!DOCTYPE'"));
  EXPECT_THAT(refused("<TMX version=\"1.4\">\n"), testing::HasSubstr(":1: begins with '<TMX'"));
  EXPECT_EQ(refused("a\nb\nc\n<tmx> is a tag\n"), "");
  EXPECT_EQ(refused("<b>bold</b>\n< srcset\n<"), "");
}

TEST(LineReaderTest, ReturnsALineOfAPipeOnceItIsComplete) {
  int ends[2];
  ASSERT_EQ(pipe(ends), 0);
  const FileDescriptor out(ends[0]);
  {
    const FileDescriptor in(ends[1]);
    LineReader reader(out.get(), "a pipe");
    RawLine line;
    for (const std::string_view text : {"\xef",
                                        "\xbb\xbf"
                                        "first\n"}) {  // a byte order mark in two writes
      ASSERT_EQ(write(in.get(), text.data(), text.size()), std::ssize(text));
    }
    ASSERT_TRUE(reader.next(line));  // the other end is still open
    EXPECT_EQ(line.text, "first");
    ASSERT_EQ(write(in.get(), "x\ny", 3), 3);
    ASSERT_TRUE(reader.next(line));
    EXPECT_EQ(line.text, "x");
  }
}

TEST(LineReaderTest, ReadsAllLinesOrNamesTheInvalidOne) {
  const TemporaryFolder folder;
  const auto refusal_of = [&](const std::string& content) -> std::string {
    try {
      read_text_lines(folder.write("a", content));
    } catch (const Failure& failure) {
      return failure.what();
    }
    return "";
  };
  EXPECT_EQ(read_text_lines(folder.write("a", "ä\r\n\nb")), (std::vector<std::string>{"ä", "", "b"}));
  EXPECT_EQ(refusal_of("a\nbc\xff\n"), (folder / "a").string() + ":2: byte 3 is not UTF-8");
  std::string long_line;  // truncated inside a character
  while (long_line.size() < LineReader::longest_bytes + 5) long_line += "€";
  EXPECT_EQ(refusal_of("a\n" + long_line + "\n"), (folder / "a").string() + ":2: over 1048576 bytes");
}

TEST(LineReaderTest, RefusesTruncatedGzipAndMissingFiles) {
  const TemporaryFolder folder;
  std::string content;
  for (int i = 0; i < 20000; ++i) content += std::to_string(i * 7919) + "\n";
  const auto path = write_gzip(folder, "a.gz", content);
  std::filesystem::resize_file(path, std::filesystem::file_size(path) / 2);
  LineReader reader(path);
  RawLine line;
  std::int64_t good = 0;
  auto read = reader.read(line);
  for (; read && *read; read = reader.read(line)) EXPECT_EQ(line.text, std::to_string(good++ * 7919));
  ASSERT_FALSE(read);
  EXPECT_GT(good, 1000) << "lines before the damage are returned";
  EXPECT_EQ(read.error(),
            fmt::format("cannot read {} after line {}: damaged or truncated gzip data: unexpected end of file",
                        path.string(), good));
  EXPECT_THROW(read_all(path), Failure);
  EXPECT_THROW(read_all(folder / "absent"), Failure);
  EXPECT_THROW(read_all(folder.path()), Failure);
}

}  // namespace
}  // namespace babelring
