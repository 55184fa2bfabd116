#include "nmt/data/line_reader.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <utility>

#include "base/failure.h"
#include "nmt/data/text.h"

namespace babelring {
namespace {
constexpr std::size_t buffer_bytes = 1 << 18;
constexpr std::string_view byte_order_mark = "\xef\xbb\xbf";
using namespace std::string_view_literals;

/// The first bytes of a kind of data that is no text.
struct Magic {
  std::string_view bytes, name, remedy;
};
constexpr std::string_view unpack = "unpack it first", convert = "convert it first, by iconv -t UTF-8";
constexpr std::array magics = {
    Magic{"PK\x03\x04"sv, "a zip archive", unpack},
    Magic{"PK\x05\x06"sv, "an empty zip archive", unpack},
    Magic{"7z\xbc\xaf\x27\x1c"sv, "a 7z archive", unpack},
    Magic{"Rar!\x1a\x07"sv, "a RAR archive", unpack},
    Magic{"\x04\x22\x4d\x18"sv, "lz4 data", unpack},
    Magic{"LZIP\x01"sv, "lzip data", unpack},
    Magic{"\x5d\0\0"sv, "lzma data", unpack},
    Magic{"\x1f\x9d"sv, "data of compress", unpack},
    Magic{"\xff\xfe\0\0"sv, "UTF-32 text", convert},
    Magic{"\0\0\xfe\xff"sv, "UTF-32 text", convert},
    Magic{"\xff\xfe"sv, "UTF-16 text", convert},
    Magic{"\xfe\xff"sv, "UTF-16 text", convert},
    Magic{"%PDF-"sv, "a PDF document", "extract its text first"},
    Magic{"PAR1\x15"sv, "a Parquet file", "export its text first"},
    Magic{"SQLite format 3\0"sv, "an SQLite database", "export its text first"},
};
constexpr std::size_t tar_magic_at = 257;
constexpr std::string_view tar_magic = "ustar";

const Magic* magic_of(std::string_view start) {
  static constexpr Magic tar{tar_magic, "a tar archive", unpack}, utf16{"", "UTF-16 text", convert};
  const auto* found =
      std::find_if(magics.begin(), magics.end(), [&](const Magic& magic) { return start.starts_with(magic.bytes); });
  if (found != magics.end()) return found;
  if (start.size() > tar_magic_at && start.substr(tar_magic_at).starts_with(tar_magic)) return &tar;
  if (start.size() < 4) return nullptr;
  // Two characters below U+0100, without a mark.
  const auto zero = [&](std::size_t i) { return start[i] == 0; };
  const bool little = !zero(0) && zero(1) && !zero(2) && zero(3), big = zero(0) && !zero(1) && zero(2) && !zero(3);
  return little || big ? &utf16 : nullptr;
}

/// True if more bytes may make it a magic, or a byte order mark, which may arrive in several reads. No text that begins
/// with a part of one is held up for more than a few bytes.
bool may_become_magic(std::string_view start) {
  const auto grows_to = [&](std::string_view whole) { return start.size() < whole.size() && whole.starts_with(start); };
  return grows_to(byte_order_mark) || ByteSource::may_be_compressed(start) ||
         std::any_of(magics.begin(), magics.end(), [&](const Magic& magic) { return grows_to(magic.bytes); });
}

}  // namespace

LineReader::LineReader(const std::filesystem::path& file) : LineReader(std::make_unique<ByteSource>(file), file) {}
LineReader::LineReader(int descriptor, std::string name)
    : LineReader(std::make_unique<ByteSource>(descriptor), std::move(name)) {}
LineReader::LineReader(std::unique_ptr<ByteSource> source, std::filesystem::path name)
    : file_(std::move(name)), source_(std::move(source)), buffer_(buffer_bytes) {}

/// Fills the buffer with the start of the file, without a byte order mark.
Status LineReader::fill_start() {
  begun_ = true;
  do {
    const auto read = source_->read(std::span(buffer_).subspan(end_));
    if (!read) return Error{fmt::format("cannot read {} after line 0: {}", file_.string(), read.error())};
    end_ += *read;
    if (*read == 0) break;
  } while (may_become_magic({buffer_.data(), end_}));
  const std::string_view start(buffer_.data(), end_);
  constexpr std::string_view expected = "expected UTF-8 text, plain or compressed by gzip, xz, zstd or bzip2";
  if (const std::string_view inner = ByteSource::compression_of(start); !inner.empty()) {
    return Error{fmt::format("{} is {} data inside {} data, {}: unpack it once", file_.string(), inner,
                             source_->compression(), expected)};
  }
  if (const Magic* magic = magic_of(start)) {
    return Error{fmt::format("{} is {}, {}: {}", file_.string(), magic->name, expected, magic->remedy)};
  }
  if (start.starts_with(byte_order_mark)) at_ = byte_order_mark.size();
  return {};
}

/// Refills the buffer. Returns false at the end of the file.
Result<bool> LineReader::fill() {
  at_ = end_ = 0;
  if (!begun_) {
    if (const auto filled = fill_start(); !filled) return Error{filled.error()};
    if (at_ < end_) return true;
    if (end_ == 0) return false;
    at_ = end_ = 0;
  }
  const auto read = source_->read(buffer_);
  if (!read) return Error{fmt::format("cannot read {} after line {}: {}", file_.string(), lines_, read.error())};
  end_ = *read;
  return end_ > 0;
}

Result<bool> LineReader::read(RawLine& line) {
  line.text.clear();
  line.crlf = line.over_long = false;
  bool begun = false, ended = false;
  while (!ended) {
    if (at_ == end_) {
      const auto filled = fill();
      if (!filled) return Error{filled.error()};
      if (!*filled) break;
    }
    begun = true;
    const auto first = buffer_.begin() + static_cast<std::ptrdiff_t>(at_);
    const auto last = buffer_.begin() + static_cast<std::ptrdiff_t>(end_);
    const auto newline = std::find(first, last, '\n');
    ended = newline != last;
    const auto found = static_cast<std::size_t>(newline - first);
    // Keeps one extra byte for the CR of a line of exactly the max length.
    const std::size_t room = longest_bytes + 1 - std::min(longest_bytes + 1, line.text.size());
    if (found > room) line.over_long = true;
    line.text.append(first, first + static_cast<std::ptrdiff_t>(std::min(found, room)));
    at_ += found + (ended ? 1 : 0);
  }
  if (!begun) return false;
  line.number = ++lines_;
  if (ended && !line.over_long && line.text.ends_with('\r')) {
    line.crlf = true;
    line.text.pop_back();
  }
  if (line.text.size() > longest_bytes) {
    line.over_long = true;
    line.text.resize(longest_bytes);
  }
  return true;
}

std::string_view markup_of(const RawLine& line) {
  constexpr std::int64_t first_lines = 3;
  constexpr std::array tags = {"<srcset"sv,   "<refset"sv,   "<tstset"sv,  "<mteval"sv, "<?xml"sv,
                               "<!doctype"sv, "<tmx"sv,      "<xliff"sv,   "<doc "sv,   "<html"sv,
                               "<cesdoc"sv,   "<cesalign"sv, "<linkgrp"sv, "<corpus"sv, "<tei"sv};
  if (line.number > first_lines) return {};
  std::string_view text = line.text;
  text.remove_prefix(std::min(text.find_first_not_of(" \t"), text.size()));
  const auto alike = [](char a, char b) { return a == (b >= 'A' && b <= 'Z' ? b - 'A' + 'a' : b); };
  const auto* found = std::find_if(tags.begin(), tags.end(), [&](std::string_view tag) {
    return text.size() >= tag.size() && std::equal(tag.begin(), tag.end(), text.begin(), alike);
  });
  return found == tags.end() ? std::string_view() : text.substr(0, found->size());
}

void refuse_markup(const std::filesystem::path& file, const RawLine& line) {
  const std::string_view tag = markup_of(line);
  if (tag.empty()) return;
  fail("{}:{}: begins with '{}', so it is SGML or XML; expected plain text with a sentence on each line", file.string(),
       line.number, tag);
}

LineWriter::LineWriter(const std::filesystem::path& file)
    : file_(file), stream_(file, std::ios::binary | std::ios::trunc) {
  check();
}

void LineWriter::add(std::string_view line) {
  stream_ << line << '\n';
  check();
}

void LineWriter::finish() {
  stream_.close();
  check();
}

void LineWriter::check() const {
  if (!stream_) fail("cannot write {}", file_.string());
}

std::vector<std::string> read_text_lines(const std::filesystem::path& file) {
  std::vector<std::string> lines;
  LineReader reader(file);
  for (RawLine line; reader.next(line);) {
    refuse_markup(file, line);
    if (line.over_long) fail("{}:{}: over {} bytes", file.string(), line.number, LineReader::longest_bytes);
    const std::size_t invalid = find_invalid_utf8(line.text);
    if (invalid != std::string::npos) fail("{}:{}: byte {} is not UTF-8", file.string(), line.number, invalid + 1);
    lines.push_back(std::move(line.text));
  }
  return lines;
}

}  // namespace babelring
