#include "client/event_reader.h"

#include <algorithm>
#include <utility>

#include "base/parse_number.h"

namespace babelring {
namespace {

constexpr unsigned int longest_retry_ms = 60000;

}  // namespace

bool EventReader::feed(std::string_view bytes, const std::function<bool(const ServerEvent&)>& on_event) {
  for (const char c : bytes) {
    const bool second_of_pair = std::exchange(after_return_, c == '\r') && c == '\n';
    if (second_of_pair) continue;
    if (c != '\r' && c != '\n') {
      line_ += c;
      continue;
    }
    const std::string line = std::exchange(line_, {});
    if (!line.empty()) {
      take_line(line);
      continue;
    }
    last_id_ = id_;
    const ServerEvent event = std::exchange(event_, {});
    if (std::exchange(has_data_, false) && !on_event(event)) return false;
  }
  return true;
}

void EventReader::take_line(std::string_view line) {
  const std::size_t colon = line.find(':');
  if (colon == 0) return;  // a comment
  const std::string_view field = line.substr(0, colon);
  std::string_view value = colon == std::string_view::npos ? std::string_view() : line.substr(colon + 1);
  if (value.starts_with(' ')) value.remove_prefix(1);
  if (field == "data") {
    if (std::exchange(has_data_, true)) event_.data += '\n';
    event_.data += value;
  } else if (field == "event") {
    event_.name = value.empty() ? "message" : std::string(value);
  } else if (field == "id") {
    if (value.find('\0') == std::string_view::npos) id_ = value;
  } else if (field == "retry") {
    const auto ms = parse_number<unsigned int>(value);
    if (ms) retry_ = std::chrono::milliseconds(std::min(*ms, longest_retry_ms));
  }
}

void EventReader::restart() {
  line_.clear();
  event_ = {};
  id_ = last_id_;
  has_data_ = after_return_ = false;
}

}  // namespace babelring
