#include "base/records/event_file.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <unistd.h>

#include <array>
#include <bit>
#include <cerrno>
#include <cstring>
#include <optional>
#include <utility>

#include "base/clock.h"
#include "base/failure.h"
#include "base/files.h"

namespace babelring {
namespace {

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

template <class Number>
std::string bytes_of(Number number) {
  std::string bytes(sizeof number, '\0');
  std::memcpy(bytes.data(), &number, sizeof number);
  return bytes;
}

template <class Number>
Number number_at(std::string_view bytes, std::size_t at) {
  Number number{};
  std::memcpy(&number, bytes.data() + at, sizeof number);
  return number;
}

// Fields of tensorflow/core/util/event.proto and tensorflow/core/framework/{summary,tensor}.proto.
constexpr int event_time = 1, event_step = 2, event_file_version = 3, event_graph = 4, event_summary = 5,
              event_session_log = 7;
constexpr int session_status = 1, session_started = 1;
constexpr int summary_value = 1;
constexpr int value_tag = 1, value_simple = 2, value_tensor = 8, value_metadata = 9;
constexpr int tensor_type = 1, tensor_shape = 2, tensor_content = 4, tensor_floats = 5, tensor_doubles = 6,
              tensor_texts = 8;
constexpr std::uint64_t float_type = 1, double_type = 2, text_type = 7;  // DataType

ProtobufMessage event(std::int64_t step) {
  return ProtobufMessage()
      .double_number(event_time, static_cast<double>(wall_time_ms()) / 1000)
      .integer(event_step, step);
}

/// The number of a tensor of one float or double; nothing if it is another.
std::optional<double> number_of_tensor(std::string_view tensor) {
  std::uint64_t type = 0;
  std::string_view numbers;
  for (ProtobufReader field(tensor); field.next();) {
    if (field.field() == tensor_type) type = field.integer();
    if (field.field() == tensor_content || field.field() == tensor_floats || field.field() == tensor_doubles) {
      numbers = field.bytes();
    }
  }
  if (type == float_type && numbers.size() == sizeof(float)) return number_at<float>(numbers, 0);
  if (type == double_type && numbers.size() == sizeof(double)) return number_at<double>(numbers, 0);
  return std::nullopt;
}

/// Adds the scalars of a serialized Event, or discards those that a restarted session does again.
void add_scalars(std::string_view event, std::vector<EventScalar>& scalars) {
  double seconds = 0;
  std::int64_t step = 0;
  std::string_view summary;
  bool restarted = false;
  for (ProtobufReader field(event); field.next();) {
    if (field.field() == event_time) seconds = field.number<double>();
    if (field.field() == event_step) step = static_cast<std::int64_t>(field.integer());
    if (field.field() == event_summary) summary = field.bytes();
    if (field.field() != event_session_log) continue;
    for (ProtobufReader log(field.bytes()); log.next();) {
      restarted = restarted || (log.field() == session_status && log.integer() == session_started);
    }
  }
  if (restarted) std::erase_if(scalars, [step](const EventScalar& scalar) { return scalar.step >= step; });
  for (ProtobufReader field(summary); field.next();) {
    if (field.field() != summary_value) continue;
    EventScalar scalar{.step = step, .seconds = seconds};
    std::optional<double> number;
    for (ProtobufReader value(field.bytes()); value.next();) {
      if (value.field() == value_tag) scalar.tag = value.bytes();
      if (value.field() == value_simple) number = value.number();
      if (value.field() == value_tensor) number = number_of_tensor(value.bytes());
    }
    if (!number) continue;
    scalar.value = *number;
    scalars.push_back(std::move(scalar));
  }
}

constexpr std::size_t length_bytes = sizeof(std::uint64_t), crc_bytes = sizeof(std::uint32_t);

}  // namespace

std::uint32_t crc32c(std::string_view bytes) {
  std::uint32_t crc = ~0U;
  for (const unsigned char byte : bytes) crc = (crc >> 8) ^ crc_table[(crc ^ byte) & 0xff];
  return ~crc;
}

void SummaryBytes::scalar(std::string_view tag, double value) {
  summary_.message(summary_value,
                   ProtobufMessage().bytes(value_tag, tag).number(value_simple, static_cast<float>(value)));
}

void SummaryBytes::text(std::string_view tag, std::string_view markdown) {
  constexpr int tensor_class = 2;  // DataClass DATA_CLASS_TENSOR
  const ProtobufMessage plugin =
      ProtobufMessage().message(1, ProtobufMessage().bytes(1, "text")).integer(4, tensor_class);
  const ProtobufMessage one = ProtobufMessage().message(2, ProtobufMessage().integer(1, 1));  // shape [1]
  const ProtobufMessage tensor = ProtobufMessage()
                                     .integer(tensor_type, static_cast<std::int64_t>(text_type))
                                     .message(tensor_shape, one)
                                     .bytes(tensor_texts, markdown);
  summary_.message(
      summary_value,
      ProtobufMessage().bytes(value_tag, tag).message(value_tensor, tensor).message(value_metadata, plugin));
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
  append(event(0).bytes(event_file_version, "brain.Event:2").text());
}

EventFile::~EventFile() {
  close(descriptor_);
}

void EventFile::restart_at(std::int64_t step) {
  append(event(step).message(event_session_log, ProtobufMessage().integer(session_status, session_started)).text());
}

bool EventFile::write(std::int64_t step, const SummaryBytes& summary) {
  append(event(step).bytes(event_summary, summary.bytes()).text());
  return message_.empty();
}

bool EventFile::write_graph(std::string_view graph_def) {
  append(event(0).bytes(event_graph, graph_def).text());
  return message_.empty();
}

void EventFile::append(const std::string& event) {
  if (!message_.empty()) return;
  const std::string length = bytes_of(static_cast<std::uint64_t>(event.size()));
  std::string record = length + bytes_of(masked(crc32c(length)));
  record += event + bytes_of(masked(crc32c(event)));
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

bool begins_event_file(std::string_view bytes) {
  return bytes.size() >= length_bytes + crc_bytes &&
         number_at<std::uint32_t>(bytes, length_bytes) == masked(crc32c(bytes.substr(0, length_bytes)));
}

std::vector<EventScalar> read_event_scalars(const std::filesystem::path& file) {
  const std::string content = read_file(file);
  std::vector<EventScalar> scalars;
  std::string_view left = content;
  while (left.size() >= length_bytes + crc_bytes) {
    const auto damaged = [&](std::string_view found) {
      throw UsageFailure(fmt::format("{}: byte {}: found {}, expected an undamaged TensorBoard event file",
                                     file.string(), content.size() - left.size(), found));
    };
    if (!begins_event_file(left)) damaged("a length with another CRC");
    const auto length = number_at<std::uint64_t>(left, 0);
    if (length > left.size() - length_bytes - crc_bytes ||
        left.size() - length_bytes - crc_bytes - length < crc_bytes) {
      break;  // the last record, of a program that was killed
    }
    const std::string_view event = left.substr(length_bytes + crc_bytes, length);
    if (number_at<std::uint32_t>(left, length_bytes + crc_bytes + length) != masked(crc32c(event))) {
      damaged("an event with another CRC");
    }
    try {
      add_scalars(event, scalars);
    } catch (const Failure& failure) {
      damaged(failure.what());
    }
    left.remove_prefix(length_bytes + crc_bytes + length + crc_bytes);
  }
  return scalars;
}

}  // namespace babelring
