#pragma once

#include <bit>
#include <cstdint>
#include <cstring>
#include <filesystem>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

/// Serializes protocol buffers by hand: each field is a tag (number and wire type), then the value.
/// Source: protobuf.dev/programming-guides/encoding.

namespace babelring::protobuf {

template <class Number>
std::string little_endian(Number number) {
  static_assert(std::endian::native == std::endian::little);
  std::string bytes(sizeof number, '\0');
  std::memcpy(bytes.data(), &number, sizeof number);
  return bytes;
}

/// How a field is encoded: the low three bits of its tag.
enum class WireType { varint = 0, fixed64 = 1, bytes = 2, fixed32 = 5 };

inline std::string varint(std::uint64_t number) {
  std::string bytes;
  for (; number >= 0x80; number >>= 7) bytes += static_cast<char>(number | 0x80);
  return bytes += static_cast<char>(number);
}

inline std::string field(int number, WireType type, const std::string& value) {
  return varint(static_cast<std::uint64_t>(number) << 3 | static_cast<std::uint64_t>(type)) + value;
}

inline std::string varint_field(int number, std::uint64_t value) {
  return field(number, WireType::varint, varint(value));
}

/// A text, a message or packed numbers.
inline std::string bytes_field(int number, std::string_view bytes) {
  return field(number, WireType::bytes, varint(bytes.size()).append(bytes));
}

}  // namespace babelring::protobuf

namespace babelring {

/// CRC-32C (Castagnoli; RFC 3720, appendix B.4).
std::uint32_t crc32c(std::string_view bytes);

/// Builds a serialized `Summary` protocol buffer: the values of one event.
class SummaryBytes {
 public:
  void scalar(std::string_view tag, double value);
  /// Adds Markdown for TensorBoard's Text tab.
  void text(std::string_view tag, std::string_view markdown);
  bool empty() const { return bytes_.empty(); }
  const std::string& bytes() const { return bytes_; }

 private:
  std::string bytes_;
};

/// Writes a TensorBoard event file. It consists of TFRecords: u64 length, masked CRC of the length, payload, masked CRC
/// of the payload. Each payload is an `Event` message (tensorflow/core/util/event.proto), serialized by hand. Each
/// event is written with one write(2). Not thread-safe.
class EventFile {
 public:
  /// Creates the folder and a new file in it, whose name sorts after older files. Throws Failure.
  EventFile(const std::filesystem::path& folder, std::string_view host);
  ~EventFile();
  EventFile(const EventFile&) = delete;
  EventFile& operator=(const EventFile&) = delete;

  /// Tells TensorBoard to discard older events from `step` on.
  void restart_at(std::int64_t step);
  /// Returns false on a write error, described by message(). Later events are then dropped.
  bool write(std::int64_t step, const SummaryBytes& summary);

  /// The same for a serialized GraphDef, which TensorBoard shows in the tab Graphs.
  bool write_graph(std::string_view graph_def);

  const std::filesystem::path& path() const { return path_; }
  const std::string& message() const { return message_; }

 private:
  void append(const std::string& event);

  std::filesystem::path path_;
  int descriptor_ = -1;
  std::string message_;
};

}  // namespace babelring
