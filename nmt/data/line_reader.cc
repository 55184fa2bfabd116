#include "nmt/data/line_reader.h"

#include <zlib.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <string_view>
#include <utility>

#include "nmt/base/failure.h"
#include "nmt/data/text.h"

namespace babelring {

namespace {
constexpr std::size_t buffer_bytes = 1 << 18;
constexpr std::string_view byte_order_mark = "\xef\xbb\xbf";
}  // namespace

/// Owns zlib's handle.
struct LineReader::Stream {
  explicit Stream(const std::filesystem::path& file) : handle(gzopen(file.c_str(), "rb")) {}
  ~Stream() {
    if (handle) gzclose_r(handle);
  }
  Stream(const Stream&) = delete;
  Stream& operator=(const Stream&) = delete;
  gzFile handle;
};

LineReader::LineReader(std::filesystem::path file) : file_(std::move(file)), buffer_(buffer_bytes) {
  if (std::filesystem::is_directory(file_)) fail("cannot read {}: it is a folder", file_.string());
  errno = 0;
  stream_ = std::make_unique<Stream>(file_);
  if (!stream_->handle) fail("cannot open {}: {}", file_.string(), std::strerror(errno));
  if (fill() && std::string_view(buffer_.data(), end_).substr(0, 3) == byte_order_mark) at_ = 3;
}

LineReader::~LineReader() = default;

bool LineReader::fill() {
  const int read = gzread(stream_->handle, buffer_.data(), static_cast<unsigned>(buffer_.size()));
  int code = Z_OK;
  const char* message = gzerror(stream_->handle, &code);
  if (read < 0 || (code != Z_OK && code != Z_STREAM_END)) {
    fail("{}: damaged or truncated gzip data after line {}: {}", file_.string(), lines_,
         code == Z_ERRNO ? std::strerror(errno) : message);
  }
  at_ = 0;
  end_ = static_cast<std::size_t>(read);
  return read > 0;
}

bool LineReader::next(RawLine& line) {
  line.text.clear();
  line.crlf = line.over_long = false;
  bool begun = false, ended = false;
  while (!ended) {
    if (at_ == end_ && !fill()) break;
    begun = true;
    const auto first = buffer_.begin() + static_cast<std::ptrdiff_t>(at_);
    const auto last = buffer_.begin() + static_cast<std::ptrdiff_t>(end_);
    const auto newline = std::find(first, last, '\n');
    ended = newline != last;
    const auto found = static_cast<std::size_t>(newline - first);
    // One byte more than allowed is kept for the CR of a line that is exactly as long as allowed.
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
