#include "nmt/data/line_reader.h"

#include <fcntl.h>
#include <unistd.h>
#include <zlib.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstring>
#include <optional>
#include <string_view>
#include <utility>
#include <vector>

#include "base/failure.h"
#include "base/files.h"
#include "base/result.h"
#include "nmt/data/text.h"

namespace babelring {
namespace {

constexpr std::size_t raw_bytes = 1 << 18;
constexpr int gzip_window = 15 + 16;  // max window size; 16 selects the gzip format
constexpr unsigned char gzip_magic[] = {0x1f, 0x8b};

int open_for_reading(const std::filesystem::path& file) {
  if (std::filesystem::is_directory(file)) fail("cannot read {}: it is a folder", file.string());
  const int descriptor = ::open(file.c_str(), O_RDONLY | O_CLOEXEC);
  if (descriptor < 0) fail("cannot open {}: {}", file.string(), std::strerror(errno));
  return descriptor;
}

Error damaged(const char* what) {
  return Error{std::string("damaged or truncated gzip data: ") + what};
}

}  // namespace

struct ByteSource::State {
  State(int file, int borrowed) : owned(file), descriptor(file >= 0 ? file : borrowed), raw(raw_bytes) {}
  ~State() {
    if (gzip == true) inflateEnd(&stream);
  }
  State(const State&) = delete;
  State& operator=(const State&) = delete;

  std::size_t left() const { return end - at; }

  FileDescriptor owned;
  int descriptor;
  std::vector<unsigned char> raw;  // bytes as read from the file
  std::size_t at = 0, end = 0;     // unread range of `raw`
  std::int64_t before_raw = 0;     // bytes of the file before those in `raw`
  bool ended = false;              // end of file was reached
  std::optional<bool> gzip;        // unset until the first bytes are read
  bool inside_member = false;      // inside a gzip member; a file may hold several
  z_stream stream{};
};

ByteSource::ByteSource(const std::filesystem::path& file)
    : state_(std::make_unique<State>(open_for_reading(file), -1)) {}
ByteSource::ByteSource(int descriptor) : state_(std::make_unique<State>(-1, descriptor)) {}
ByteSource::~ByteSource() = default;

/// Appends the result of one read() to `raw`, or sets `ended`.
Status ByteSource::refill() {
  State& state = *state_;
  std::copy(state.raw.begin() + static_cast<std::ptrdiff_t>(state.at),
            state.raw.begin() + static_cast<std::ptrdiff_t>(state.end), state.raw.begin());
  state.end = state.left();
  state.before_raw += static_cast<std::int64_t>(state.at);
  state.at = 0;
  ssize_t got = 0;
  do {
    got = ::read(state.descriptor, state.raw.data() + state.end, state.raw.size() - state.end);
  } while (got < 0 && errno == EINTR);
  if (got < 0) return Error{std::strerror(errno)};
  state.ended = got == 0;
  state.end += static_cast<std::size_t>(got);
  return {};
}

Result<bool> ByteSource::is_gzip() {
  State& state = *state_;
  const auto fits = [&] {
    return std::equal(gzip_magic, gzip_magic + std::min<std::size_t>(2, state.left()), &state.raw[state.at]);
  };
  while (state.left() < 2 && fits() && !state.ended) {
    if (const auto filled = refill(); !filled) return Error{filled.error()};
  }
  return state.left() >= 2 && fits();
}

/// Skips zeros up to the end of the file; an Error if anything else is there.
Status ByteSource::require_padding() {
  State& state = *state_;
  do {
    while (state.left() > 0 && state.raw[state.at] == 0) ++state.at;
    if (state.left() > 0) {
      return Error{
          fmt::format("damaged gzip data: byte {:#04x} at offset {}, after a complete member; expected another "
                      "member, zeros or the end of the file",
                      state.raw[state.at], state.before_raw + static_cast<std::int64_t>(state.at))};
    }
    if (const auto filled = refill(); !filled) return Error{filled.error()};
  } while (!state.ended);
  return {};
}

Result<std::size_t> ByteSource::inflate_into(std::span<char> room) {
  State& state = *state_;
  z_stream& stream = state.stream;
  stream.next_out = reinterpret_cast<Bytef*>(room.data());
  stream.avail_out = static_cast<uInt>(room.size());
  while (stream.avail_out == room.size()) {
    if (!state.inside_member) {
      const auto another = is_gzip();
      if (!another) return Error{another.error()};
      if (!*another) {
        if (const auto padding = require_padding(); !padding) return Error{padding.error()};
        return std::size_t{0};  // end of data
      }
      inflateReset(&stream);
      state.inside_member = true;
    }
    if (state.left() == 0 && !state.ended) {
      if (const auto filled = refill(); !filled) return Error{filled.error()};
    }
    if (state.left() == 0) return damaged("unexpected end of file");
    stream.next_in = &state.raw[state.at];
    stream.avail_in = static_cast<uInt>(state.left());
    const int code = inflate(&stream, Z_NO_FLUSH);
    state.at = state.end - stream.avail_in;
    if (code != Z_OK && code != Z_STREAM_END) return damaged(stream.msg != nullptr ? stream.msg : zError(code));
    if (code == Z_STREAM_END) state.inside_member = false;
  }
  return room.size() - stream.avail_out;
}

Result<std::size_t> ByteSource::read(std::span<char> room) {
  State& state = *state_;
  if (!state.gzip) {
    const auto gzip = is_gzip();
    if (!gzip) return Error{gzip.error()};
    if (*gzip && inflateInit2(&state.stream, gzip_window) != Z_OK) fail("zlib: out of memory");
    state.gzip = *gzip;
  }
  if (*state.gzip) return inflate_into(room);
  if (state.left() == 0 && !state.ended) {
    if (const auto filled = refill(); !filled) return Error{filled.error()};
  }
  const std::size_t count = std::min(room.size(), state.left());
  std::memcpy(room.data(), state.raw.data() + state.at, count);
  state.at += count;
  return count;
}

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
    Magic{"\xfd"sv
          "7zXZ\0"sv,
          "xz data", "unpack it first, by xz -d"},
    Magic{"\x28\xb5\x2f\xfd"sv, "zstd data", "unpack it first, by zstd -d"},
    Magic{"PK\x03\x04"sv, "a zip archive", unpack},
    Magic{"PK\x05\x06"sv, "an empty zip archive", unpack},
    Magic{"7z\xbc\xaf\x27\x1c"sv, "a 7z archive", unpack},
    Magic{"Rar!\x1a\x07"sv, "a RAR archive", unpack},
    Magic{"\x04\x22\x4d\x18"sv, "lz4 data", unpack},
    Magic{"LZIP\x01"sv, "lzip data", unpack},
    Magic{"\x5d\0\0"sv, "lzma data", unpack},
    Magic{"\x1f\x9d"sv, "data of compress", unpack},
    Magic{"\x1f\x8b"sv, "gzip data inside gzip data", "unpack it once"},
    Magic{"\xff\xfe\0\0"sv, "UTF-32 text", convert},
    Magic{"\0\0\xfe\xff"sv, "UTF-32 text", convert},
    Magic{"\xff\xfe"sv, "UTF-16 text", convert},
    Magic{"\xfe\xff"sv, "UTF-16 text", convert},
    Magic{"%PDF-"sv, "a PDF document", "extract its text first"},
    Magic{"PAR1\x15"sv, "a Parquet file", "export its text first"},
    Magic{"SQLite format 3\0"sv, "an SQLite database", "export its text first"},
};
constexpr std::size_t tar_magic_at = 257;
constexpr std::string_view tar_magic = "ustar", bzip2_magic = "BZh";  // the latter before a digit

const Magic* magic_of(std::string_view start) {
  static constexpr Magic tar{tar_magic, "a tar archive", unpack}, utf16{"", "UTF-16 text", convert},
      bzip2{bzip2_magic, "bzip2 data", "unpack it first, by bzip2 -d"};
  const auto* found =
      std::find_if(magics.begin(), magics.end(), [&](const Magic& magic) { return start.starts_with(magic.bytes); });
  if (found != magics.end()) return found;
  if (start.size() > tar_magic_at && start.substr(tar_magic_at).starts_with(tar_magic)) return &tar;
  if (start.size() < 4) return nullptr;
  if (start.starts_with(bzip2_magic) && start[3] >= '1' && start[3] <= '9') return &bzip2;
  // Two characters below U+0100, without a mark.
  const auto zero = [&](std::size_t i) { return start[i] == 0; };
  const bool little = !zero(0) && zero(1) && !zero(2) && zero(3), big = zero(0) && !zero(1) && zero(2) && !zero(3);
  return little || big ? &utf16 : nullptr;
}

/// True if more bytes may make it a magic, or a byte order mark, which may arrive in several reads. No text that begins
/// with a part of one is held up for more than a few bytes.
bool may_become_magic(std::string_view start) {
  const auto grows_to = [&](std::string_view whole) { return start.size() < whole.size() && whole.starts_with(start); };
  return grows_to(byte_order_mark) || start == bzip2_magic ||
         std::any_of(magics.begin(), magics.end(), [&](const Magic& magic) { return grows_to(magic.bytes); });
}

}  // namespace

LineReader::LineReader(std::filesystem::path file) : file_(std::move(file)), source_(file_), buffer_(buffer_bytes) {}
LineReader::LineReader(int descriptor, std::string name)
    : file_(std::move(name)), source_(descriptor), buffer_(buffer_bytes) {}

/// Fills the buffer with the start of the file, without a byte order mark.
Status LineReader::fill_start() {
  begun_ = true;
  do {
    const auto read = source_.read(std::span(buffer_).subspan(end_));
    if (!read) return Error{fmt::format("cannot read {} after line 0: {}", file_.string(), read.error())};
    end_ += *read;
    if (*read == 0) break;
  } while (may_become_magic({buffer_.data(), end_}));
  const std::string_view start(buffer_.data(), end_);
  if (const Magic* magic = magic_of(start)) {
    return Error{
        fmt::format("{} is {}, expected UTF-8 text, plain or gzipped: {}", file_.string(), magic->name, magic->remedy)};
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
  const auto read = source_.read(buffer_);
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
