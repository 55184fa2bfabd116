#pragma once

#include <cstdint>
#include <filesystem>
#include <string>
#include <string_view>
#include <vector>

#include "base/protobuf.h"

namespace babelring {

/// CRC-32C (Castagnoli; RFC 3720, appendix B.4).
std::uint32_t crc32c(std::string_view bytes);

/// Builds a serialized `Summary` protocol buffer: the values of one event.
class SummaryBytes {
 public:
  void scalar(std::string_view tag, double value);
  /// Adds Markdown for TensorBoard's Text tab.
  void text(std::string_view tag, std::string_view markdown);
  bool empty() const { return bytes().empty(); }
  const std::string& bytes() const { return summary_.text(); }

 private:
  ProtobufMessage summary_;
};

/// Writes a TensorBoard event file. It consists of TFRecords: u64 length, masked CRC of the length, payload, masked CRC
/// of the payload. Each payload is an `Event` message (tensorflow/core/util/event.proto). Each event is written with
/// one write(2). Not thread-safe.
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

/// A scalar of an event file.
struct EventScalar {
  std::string tag;
  std::int64_t step = 0;
  double seconds = 0;  // wall clock, since 1970 UTC
  double value = 0;
};

/// The scalars of an event file of any program, in their order: of `simple_value`, as PyTorch and this program write
/// them, or a tensor of one number, as TensorFlow 2 does. A restart of the session discards what it does again. Ends
/// before a last record that is not complete, as a killed program leaves it. Throws UsageFailure (file, byte) if the
/// file is no event file or damaged.
std::vector<EventScalar> read_event_scalars(const std::filesystem::path& file);

/// True if the bytes begin an event file: the length of its first record has the right CRC.
bool begins_event_file(std::string_view bytes);

}  // namespace babelring
