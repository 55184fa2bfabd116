#include "base/records/event_file.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <unistd.h>

#include <array>
#include <bit>
#include <cerrno>
#include <cstring>

#include "base/clock.h"
#include "base/failure.h"
#include "base/log.h"

namespace babelring {
namespace {

using protobuf::bytes_field, protobuf::field, protobuf::little_endian, protobuf::varint, protobuf::WireType;

constexpr std::array<std::uint32_t, 256> make_crc_table() {
  constexpr std::uint32_t reflected_polynomial = 0x82f63b78;
  std::array<std::uint32_t, 256> table{};
  for (std::uint32_t i = 0; i < 256; ++i) {
    std::uint32_t crc = i;
    for (int bit = 0; bit < 8; ++bit) crc = (crc >> 1) ^ ((crc & 1) != 0 ? reflected_polynomial : 0);
    table[i] = crc;
  }
  return table;
}
constexpr auto crc_table = make_crc_table();

/// TFRecord masks CRCs, because the CRC of data that contains its own CRC is degenerate.
std::uint32_t masked(std::uint32_t crc) {
  return std::rotr(crc, 15) + 0xa282ead8;
}

std::string event(std::int64_t step, const std::string& payload) {
  const double seconds = static_cast<double>(wall_time_ms()) / 1000;
  return field(1, WireType::fixed64, little_endian(seconds)) +
         field(2, WireType::varint, varint(static_cast<std::uint64_t>(step))) + payload;
}

constexpr int event_file_version = 3, event_graph = 4, event_summary = 5, event_session_log = 7;
constexpr int summary_value = 1;
constexpr int value_tag = 1, value_simple = 2, value_tensor = 8, value_metadata = 9;

}  // namespace

std::uint32_t crc32c(std::string_view bytes) {
  std::uint32_t crc = ~0U;
  for (const unsigned char byte : bytes) crc = (crc >> 8) ^ crc_table[(crc ^ byte) & 0xff];
  return ~crc;
}

void SummaryBytes::scalar(std::string_view tag, double value) {
  bytes_ += bytes_field(summary_value, bytes_field(value_tag, tag) + field(value_simple, WireType::fixed32,
                                                                           little_endian(static_cast<float>(value))));
}

void SummaryBytes::text(std::string_view tag, std::string_view markdown) {
  constexpr int string_type = 7;   // DataType DT_STRING
  constexpr int tensor_class = 2;  // DataClass DATA_CLASS_TENSOR
  const std::string plugin = bytes_field(1, bytes_field(1, "text")) + field(4, WireType::varint, varint(tensor_class));
  const std::string one = bytes_field(2, field(1, WireType::varint, varint(1)));  // shape [1]
  const std::string tensor =
      field(1, WireType::varint, varint(string_type)) + bytes_field(2, one) + bytes_field(8, markdown);
  bytes_ += bytes_field(summary_value, bytes_field(value_tag, tag) + bytes_field(value_tensor, tensor) +
                                           bytes_field(value_metadata, plugin));
}

EventFile::EventFile(const std::filesystem::path& folder, std::string_view host) {
  std::error_code error;
  std::filesystem::create_directories(folder, error);
  if (error) fail("tensorboard: {}: {}", folder.string(), error.message());
  // Milliseconds distinguish two files that one process creates within a second.
  const std::int64_t now = wall_time_ms();
  path_ = folder / fmt::format("events.out.tfevents.{:010}.{:03}.{}.{}", now / 1000, now % 1000, host, getpid());
  descriptor_ = open(path_.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_APPEND | O_CLOEXEC, 0644);
  if (descriptor_ < 0) fail("tensorboard: {}: {}", path_.string(), std::strerror(errno));
  append(event(0, bytes_field(event_file_version, "brain.Event:2")));
}

EventFile::~EventFile() {
  close(descriptor_);
}

void EventFile::restart_at(std::int64_t step) {
  constexpr int started = 1;  // SessionLog.SessionStatus START
  append(event(step, bytes_field(event_session_log, field(1, WireType::varint, varint(started)))));
}

bool EventFile::write(std::int64_t step, const SummaryBytes& summary) {
  append(event(step, bytes_field(event_summary, summary.bytes())));
  return message_.empty();
}

bool EventFile::write_graph(std::string_view graph_def) {
  append(event(0, bytes_field(event_graph, graph_def)));
  return message_.empty();
}

void EventFile::append(const std::string& event) {
  if (!message_.empty()) return;
  const std::string length = little_endian(static_cast<std::uint64_t>(event.size()));
  std::string record = length + little_endian(masked(crc32c(length)));
  record += event + little_endian(masked(crc32c(event)));
  std::string_view left = record;
  while (!left.empty()) {
    const ssize_t written = ::write(descriptor_, left.data(), left.size());
    if (written < 0 && errno == EINTR) continue;
    if (written < 0) {
      message_ = fmt::format("{}: {}", path_.string(), std::strerror(errno));
      return;
    }
    left.remove_prefix(static_cast<std::size_t>(written));
  }
}

}  // namespace babelring
