#pragma once

#include <cstdint>
#include <filesystem>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace babelring {

/// CRC-32C (Castagnoli; RFC 3720, appendix B.4).
std::uint32_t crc32c(std::string_view bytes);

/// The values of one event, as the bytes of a `Summary` message.
class SummaryBytes {
 public:
  void scalar(std::string_view tag, double value);
  /// Markdown, for the text page.
  void text(std::string_view tag, std::string_view markdown);
  bool empty() const { return bytes_.empty(); }
  const std::string& bytes() const { return bytes_; }

 private:
  std::string bytes_;
};

/// A TensorBoard event file: records of u64 length, its masked CRC, bytes, their masked CRC, each record an `Event`
/// message (tensorflow/core/util/event.proto, written by hand). Each event is one write(2). Not thread-safe.
class EventFile {
 public:
  /// Makes the folder and, in it, a new file, whose name sorts behind those of earlier ones. Throws Failure.
  EventFile(const std::filesystem::path& folder, std::string_view host);
  ~EventFile();
  EventFile(const EventFile&) = delete;
  EventFile& operator=(const EventFile&) = delete;

  /// Says that what earlier files have from `step` on no longer counts.
  void restart_at(std::int64_t step);
  /// False if it cannot be written; message() then says why, and later ones are dropped.
  bool write(std::int64_t step, const SummaryBytes& summary);

  const std::filesystem::path& path() const { return path_; }
  const std::string& message() const { return message_; }

 private:
  void append(const std::string& event);

  std::filesystem::path path_;
  int descriptor_ = -1;
  std::string message_;
};

}  // namespace babelring
