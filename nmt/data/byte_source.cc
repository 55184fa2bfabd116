#include "nmt/data/byte_source.h"

#include <fcntl.h>
#include <unistd.h>
#include <zlib.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <optional>
#include <vector>

#include "base/failure.h"
#include "base/file_descriptor.h"

namespace babelring {

namespace {

constexpr std::size_t raw_bytes = 1 << 18;
constexpr int gzip_window = 15 + 16;  // max window size; 16 selects the gzip format
constexpr unsigned char magic[] = {0x1f, 0x8b};

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
    return std::equal(magic, magic + std::min<std::size_t>(2, state.left()), &state.raw[state.at]);
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

}  // namespace babelring
