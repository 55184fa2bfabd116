#pragma once

#include <gtest/gtest.h>

#include <map>
#include <memory>
#include <string>
#include <vector>

#include "base/json.h"
#include "server/events/event_hub.h"
#include "tests/server/client.h"
#include "tests/server/test_server.h"
#include "tests/soon.h"

namespace babelring::testing {

inline std::string subscribe(const std::string& query, const std::string& headers = "") {
  return "GET /api/v1/events?" + query + " HTTP/1.1\r\nHost: localhost\r\n" + authorization() + headers + "\r\n";
}

/// All that is due.
inline std::string taken(const std::shared_ptr<http::EventSource>& reader) {
  std::string text;
  for (;;) {
    const auto frames = reader->take();
    if (frames.size() == 0) return text;
    text.append(frames.text).append(frames.tail());
  }
}

inline std::string last_id(const std::string& text) {
  const auto at = text.rfind("id: ") + 4;
  return text.substr(at, text.find('\n', at) - at);
}

inline json::object data_of(const std::string& frame) {
  const auto at = frame.find("data: ") + 6;
  return parse_json(frame.substr(at, frame.find('\n', at) - at)).value().as_object();
}

/// Texts of the frames of an event in what was taken.
inline std::vector<std::string> frames_of(const std::string& text, const std::string& event) {
  std::vector<std::string> frames;
  for (std::size_t at = 0; (at = text.find("event: " + event + "\n", at)) != std::string::npos; ++at) {
    frames.push_back(text.substr(at, text.find("\n\n", at) - at));
  }
  return frames;
}

}  // namespace babelring::testing
