#include "nmt/data/line_reader.h"

#include <algorithm>
#include <string_view>
#include <utility>

#include "base/failure.h"
#include "nmt/data/text.h"

namespace babelring {

namespace {
constexpr std::size_t buffer_bytes = 1 << 18;
constexpr std::string_view byte_order_mark = "\xef\xbb\xbf";
}  // namespace

LineReader::LineReader(std::filesystem::path file) : file_(std::move(file)), source_(file_), buffer_(buffer_bytes) {}
LineReader::LineReader(int descriptor, std::string name)
    : file_(std::move(name)), source_(descriptor), buffer_(buffer_bytes) {}

/// Refills the buffer. Returns false at the end of the file.
Result<bool> LineReader::fill() {
  at_ = end_ = 0;
  // A byte order mark may arrive in several reads. No other valid text begins with a part of it.
  do {
    const auto read = source_.read(std::span(buffer_).subspan(end_));
    if (!read) return Error{fmt::format("cannot read {} after line {}: {}", file_.string(), lines_, read.error())};
    end_ += *read;
    if (*read == 0) break;
  } while (!begun_ && end_ < byte_order_mark.size() && byte_order_mark.starts_with({buffer_.data(), end_}));
  const bool marked = !begun_ && std::string_view(buffer_.data(), end_).starts_with(byte_order_mark);
  begun_ = true;
  if (!marked) return end_ > 0;
  if (end_ == byte_order_mark.size()) return fill();
  at_ = byte_order_mark.size();
  return true;
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
    if (line.over_long) fail("{}:{}: over {} bytes", file.string(), line.number, LineReader::longest_bytes);
    const std::size_t invalid = find_invalid_utf8(line.text);
    if (invalid != std::string::npos) fail("{}:{}: byte {} is not UTF-8", file.string(), line.number, invalid + 1);
    lines.push_back(std::move(line.text));
  }
  return lines;
}

}  // namespace babelring
