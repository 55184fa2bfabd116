#include "nmt/data/byte_source.h"

#include <bzlib.h>
#include <fcntl.h>
#include <fmt/format.h>
#include <lzma.h>
#include <unistd.h>
#include <zlib.h>
#include <zstd.h>
#include <zstd_errors.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstdint>
#include <cstring>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "base/failure.h"
#include "base/files.h"

namespace babelring {
namespace {

using Bytes = std::span<const unsigned char>;
constexpr std::size_t raw_bytes = 1 << 18;

/// Decompresses the members of one format.
class Decoder {
 public:
  struct Step {
    std::size_t taken = 0, made = 0;  // bytes of the input, of the output
    bool ended = false;               // the member is complete
  };
  Decoder() = default;
  virtual ~Decoder() = default;
  Decoder(const Decoder&) = delete;
  Decoder& operator=(const Decoder&) = delete;

  /// Starts a member. Throws Failure if memory is short.
  virtual void begin() = 0;
  /// Decompresses some of `in`, which may be empty. The Error is the defect, without the format.
  virtual Result<Step> run(Bytes in, std::span<char> out) = 0;
  /// True if the Error tells a limit, not damage.
  bool refuses() const { return refuses_; }

 protected:
  Error refuse(std::string reason) {
    refuses_ = true;
    return Error{std::move(reason)};
  }

 private:
  bool refuses_ = false;
};

class GzipDecoder : public Decoder {
 public:
  GzipDecoder() {
    constexpr int window = 15 + 16;  // max window size; 16 selects the gzip format
    if (inflateInit2(&stream_, window) != Z_OK) fail("zlib: out of memory");
  }
  ~GzipDecoder() override { inflateEnd(&stream_); }
  void begin() override { inflateReset(&stream_); }
  Result<Step> run(Bytes in, std::span<char> out) override {
    stream_.next_in = const_cast<Bytef*>(in.data());  // zlib reads only
    stream_.avail_in = static_cast<uInt>(in.size());
    stream_.next_out = reinterpret_cast<Bytef*>(out.data());
    stream_.avail_out = static_cast<uInt>(out.size());
    const int code = inflate(&stream_, Z_NO_FLUSH);
    if (code != Z_OK && code != Z_STREAM_END && code != Z_BUF_ERROR) {
      return Error{stream_.msg != nullptr ? stream_.msg : zError(code)};
    }
    return Step{in.size() - stream_.avail_in, out.size() - stream_.avail_out, code == Z_STREAM_END};
  }

 private:
  z_stream stream_{};
};

class XzDecoder : public Decoder {
 public:
  ~XzDecoder() override { lzma_end(&stream_); }
  void begin() override {
    if (lzma_stream_decoder(&stream_, max_memory, 0) != LZMA_OK) fail("liblzma: out of memory");
  }
  Result<Step> run(Bytes in, std::span<char> out) override {
    stream_.next_in = in.data();
    stream_.avail_in = in.size();
    stream_.next_out = reinterpret_cast<std::uint8_t*>(out.data());
    stream_.avail_out = out.size();
    const lzma_ret code = lzma_code(&stream_, LZMA_RUN);
    if (code == LZMA_MEM_ERROR) fail("liblzma: out of memory");
    if (code != LZMA_OK && code != LZMA_STREAM_END && code != LZMA_BUF_ERROR) return defect(code);
    return Step{in.size() - stream_.avail_in, out.size() - stream_.avail_out, code == LZMA_STREAM_END};
  }

 private:
  static constexpr std::uint64_t max_memory = 256 << 20;  // xz -9 makes data that needs 65 MiB, as its manual says

  Error defect(lzma_ret code) {
    if (code == LZMA_MEMLIMIT_ERROR) {
      return refuse(fmt::format("its window needs {} MiB of memory, expected at most {}: unpack it first, by xz -d",
                                (lzma_memusage(&stream_) + (1 << 20) - 1) >> 20, max_memory >> 20));
    }
    if (code == LZMA_OPTIONS_ERROR) return refuse("it uses an unknown filter");
    return Error{code == LZMA_FORMAT_ERROR ? "no xz header" : "corrupt data"};
  }

  lzma_stream stream_ = LZMA_STREAM_INIT;
};

class ZstdDecoder : public Decoder {
 public:
  ZstdDecoder() : context_(ZSTD_createDCtx()) {
    if (context_ == nullptr) fail("libzstd: out of memory");
    ZSTD_DCtx_setParameter(context_, ZSTD_d_windowLogMax, max_window_log);
  }
  ~ZstdDecoder() override { ZSTD_freeDCtx(context_); }
  void begin() override { ZSTD_DCtx_reset(context_, ZSTD_reset_session_only); }
  Result<Step> run(Bytes in, std::span<char> out) override {
    ZSTD_inBuffer input{in.data(), in.size(), 0};
    ZSTD_outBuffer output{out.data(), out.size(), 0};
    const std::size_t code = ZSTD_decompressStream(context_, &output, &input);
    if (ZSTD_isError(code) == 0) return Step{input.pos, output.pos, code == 0};
    if (ZSTD_getErrorCode(code) == ZSTD_error_memory_allocation) fail("libzstd: out of memory");
    if (ZSTD_getErrorCode(code) == ZSTD_error_frameParameter_windowTooLarge) {
      return refuse(fmt::format("its window is over {} MiB: unpack it first, by zstd -d --long=31",
                                (std::size_t{1} << max_window_log) >> 20));
    }
    return Error{ZSTD_getErrorName(code)};
  }

 private:
  static constexpr int max_window_log = 27;  // 128 MiB, the limit of zstd -d without options
  ZSTD_DCtx* context_;
};

class Bzip2Decoder : public Decoder {
 public:
  ~Bzip2Decoder() override { end(); }
  void begin() override {
    end();
    stream_ = {};
    if (BZ2_bzDecompressInit(&stream_, 0, 0) != BZ_OK) fail("libbz2: out of memory");
    open_ = true;
  }
  Result<Step> run(Bytes in, std::span<char> out) override {
    stream_.next_in = const_cast<char*>(reinterpret_cast<const char*>(in.data()));  // libbz2 reads only
    stream_.avail_in = static_cast<unsigned>(in.size());
    stream_.next_out = out.data();
    stream_.avail_out = static_cast<unsigned>(out.size());
    const int code = BZ2_bzDecompress(&stream_);
    if (code == BZ_MEM_ERROR) fail("libbz2: out of memory");
    if (code != BZ_OK && code != BZ_STREAM_END) {
      return Error{code == BZ_DATA_ERROR_MAGIC ? "no bzip2 header" : "corrupt data"};
    }
    return Step{in.size() - stream_.avail_in, out.size() - stream_.avail_out, code == BZ_STREAM_END};
  }

 private:
  void end() {
    if (open_) BZ2_bzDecompressEnd(&stream_);
    open_ = false;
  }
  bz_stream stream_{};
  bool open_ = false;
};

template <typename T>
std::unique_ptr<Decoder> make_decoder() {
  return std::make_unique<T>();
}

using namespace std::string_view_literals;

struct Format {
  std::string_view name, magic;
  std::unique_ptr<Decoder> (*decoder)();
  bool zeros_inside = false;  // members may follow padding
};
constexpr std::array formats = {
    Format{"gzip", "\x1f\x8b"sv, make_decoder<GzipDecoder>},
    Format{"xz",
           "\xfd"
           "7zXZ\0"sv,
           make_decoder<XzDecoder>, true},
    Format{"zstd", "\x28\xb5\x2f\xfd"sv, make_decoder<ZstdDecoder>},
    Format{"zstd", "P*M\x18"sv, make_decoder<ZstdDecoder>},  // a skippable frame, as pzstd writes: 0x50 to 0x5f
    Format{"bzip2", "BZh01AY&SY"sv, make_decoder<Bzip2Decoder>},
    Format{"bzip2", "BZh0\x17\x72\x45\x38\x50\x90"sv, make_decoder<Bzip2Decoder>},  // of an empty text
};

/// True if `start`, or a part of a magic as long as it, begins data of the format.
bool fits(const Format& format, std::string_view start) {
  const std::size_t size = std::min(start.size(), format.magic.size());
  for (std::size_t i = 0; i < size; ++i) {
    const bool any_digit = format.name == "bzip2" && i == 3, low_bits = format.magic.starts_with('P') && i == 0;
    const bool same = any_digit  ? start[i] >= '1' && start[i] <= '9'
                      : low_bits ? (static_cast<unsigned char>(start[i]) & 0xf0) == 0x50
                                 : start[i] == format.magic[i];
    if (!same) return false;
  }
  return true;
}

const Format* format_of(std::string_view start) {
  const auto* found = std::find_if(formats.begin(), formats.end(), [&](const Format& format) {
    return start.size() >= format.magic.size() && fits(format, start);
  });
  return found == formats.end() ? nullptr : found;
}

int open_for_reading(const std::filesystem::path& file) {
  if (std::filesystem::is_directory(file)) fail("cannot read {}: it is a folder", file.string());
  const int descriptor = ::open(file.c_str(), O_RDONLY | O_CLOEXEC);
  if (descriptor < 0) fail("cannot open {}: {}", file.string(), std::strerror(errno));
  return descriptor;
}

}  // namespace

struct ByteSource::State {
  State(int file, int borrowed) : owned(file), descriptor(file >= 0 ? file : borrowed), raw(raw_bytes) {}

  std::size_t left() const { return end - at; }
  std::string_view rest() const { return {reinterpret_cast<const char*>(raw.data()) + at, left()}; }
  Error damaged(std::string_view defect) const {
    const bool refused = decoder != nullptr && decoder->refuses();
    return Error{fmt::format("{}{} data: {}", refused ? "" : "damaged or truncated ", format->name, defect)};
  }

  FileDescriptor owned;
  int descriptor;
  std::vector<unsigned char> raw;  // bytes as read from the file
  std::size_t at = 0, end = 0;     // unread range of `raw`
  std::int64_t before_raw = 0;     // bytes of the file before those in `raw`
  bool ended = false;              // end of file was reached
  bool detected = false;           // the first bytes are read
  const Format* format = nullptr;  // null: not compressed
  std::unique_ptr<Decoder> decoder;
  bool inside_member = false;   // a file may hold several
  bool holds_output = false;    // the decoder may have bytes for which the room was too small
  std::string seen;             // by look(), not read yet
  std::optional<Error> failed;  // behind `seen`
};

ByteSource::ByteSource(const std::filesystem::path& file)
    : state_(std::make_unique<State>(open_for_reading(file), -1)) {}
ByteSource::ByteSource(int descriptor) : state_(std::make_unique<State>(-1, descriptor)) {}
ByteSource::~ByteSource() = default;

std::string_view ByteSource::compression_of(std::string_view start) {
  const Format* format = format_of(start);
  return format == nullptr ? std::string_view() : format->name;
}

bool ByteSource::may_be_compressed(std::string_view start) {
  return std::any_of(formats.begin(), formats.end(),
                     [&](const Format& format) { return start.size() < format.magic.size() && fits(format, start); });
}

std::string_view ByteSource::compression() const {
  return state_->format == nullptr ? std::string_view() : state_->format->name;
}

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

Status ByteSource::detect() {
  State& state = *state_;
  do {
    if (const auto filled = refill(); !filled) return Error{filled.error()};
  } while (!state.ended && may_be_compressed(state.rest()));
  state.detected = true;
  state.format = format_of(state.rest());
  if (state.format != nullptr) state.decoder = state.format->decoder();
  return {};
}

/// Starts the next member; returns false at the end of the file. An Error if there is anything but padding.
Result<bool> ByteSource::begin_member() {
  State& state = *state_;
  bool padded = false;
  while (true) {
    while (state.left() > 0 && state.raw[state.at] == 0) {
      padded = true;
      ++state.at;
    }
    const bool may_begin = !padded || state.format->zeros_inside;
    const Format* found = format_of(state.rest());
    if (may_begin && found != nullptr && found->name == state.format->name) {
      state.decoder->begin();
      state.inside_member = true;
      return true;
    }
    const bool unclear = state.left() == 0 || (may_begin && may_be_compressed(state.rest()));
    if (state.ended && state.left() == 0) return false;
    if (state.ended || !unclear) {
      return Error{
          fmt::format("damaged {} data: byte {:#04x} at offset {}, after a complete member; expected another "
                      "member, zeros or the end of the file",
                      state.format->name, state.raw[state.at], state.before_raw + static_cast<std::int64_t>(state.at))};
    }
    if (const auto filled = refill(); !filled) return Error{filled.error()};
  }
}

Result<std::size_t> ByteSource::unpack(std::span<char> room) {
  State& state = *state_;
  while (true) {
    if (!state.inside_member) {
      const auto begun = begin_member();
      if (!begun) return Error{begun.error()};
      if (!*begun) return std::size_t{0};  // end of data
    }
    if (state.left() == 0 && !state.holds_output) {
      if (!state.ended) {
        if (const auto filled = refill(); !filled) return Error{filled.error()};
      }
      if (state.left() == 0) return state.damaged("unexpected end of file");
    }
    const auto step = state.decoder->run(Bytes(state.raw).subspan(state.at, state.left()), room);
    if (!step) return state.damaged(step.error());
    if (step->taken + step->made == 0 && !step->ended && state.left() > 0) return state.damaged("corrupt data");
    state.at += step->taken;
    state.inside_member = !step->ended;
    state.holds_output = !step->ended && step->made == room.size();
    if (step->made > 0) return step->made;
  }
}

Result<std::size_t> ByteSource::read_data(std::span<char> room) {
  State& state = *state_;
  if (!state.detected) {
    if (const auto detected = detect(); !detected) return Error{detected.error()};
  }
  if (state.format != nullptr) return unpack(room);
  if (state.left() == 0 && !state.ended) {
    if (const auto filled = refill(); !filled) return Error{filled.error()};
  }
  const std::size_t count = std::min(room.size(), state.left());
  std::memcpy(room.data(), state.raw.data() + state.at, count);
  state.at += count;
  return count;
}

Result<std::size_t> ByteSource::read(std::span<char> room) {
  std::string& seen = state_->seen;
  if (seen.empty() && state_->failed) return *state_->failed;
  if (seen.empty()) return read_data(room);
  const std::size_t count = std::min(room.size(), seen.size());
  std::memcpy(room.data(), seen.data(), count);
  seen.erase(0, count);
  return count;
}

std::string_view ByteSource::look(std::size_t bytes) {
  std::string& seen = state_->seen;
  std::vector<char> room(bytes);
  while (seen.size() < bytes && !state_->failed) {
    const auto count = read_data(std::span(room).first(bytes - seen.size()));
    if (!count) state_->failed.emplace(Error{count.error()});
    if (!count || *count == 0) break;
    seen.append(room.data(), *count);
  }
  return seen;
}

}  // namespace babelring
