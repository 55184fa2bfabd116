#include "client/event_stream.h"

#include <algorithm>
#include <utility>

#include "base/text.h"
#include "client/api_client.h"

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

using std::chrono::milliseconds;

EventStream::EventStream(const ServerAccess& access, std::string target, Options options)
    : client_(access.address, client_options(access, options.silence)), target_(std::move(target)), options_(options) {}

void EventStream::follow(const Handlers& handlers) {
  milliseconds pause = options_.first_retry;
  bool reported = false;
  for (;;) {
    connected_ = false;
    const Status ended = follow_once(handlers);
    if (ended) return;
    if (connected_) {
      pause = reader_.retry().value_or(options_.first_retry);
      reported = false;
    }
    if (!std::exchange(reported, true) && handlers.on_lost) handlers.on_lost(ended.error());
    pause = std::min(pause, options_.max_backoff);
    if (!wait(pause)) return;
    pause = 2 * pause;
  }
}

Status EventStream::follow_once(const Handlers& handlers) {
  HttpRequest request{.target = target_, .headers = {{"Accept", "text/event-stream"}}};
  if (!reader_.last_id().empty()) request.headers.emplace_back("Last-Event-ID", reader_.last_id());
  reader_.restart();
  bool wanted = true;
  const auto answer = client_.send(request, [&](const HttpResponse&, std::string_view piece) {
    if (!std::exchange(connected_, true) && handlers.on_connected) handlers.on_connected();
    wanted = reader_.feed(piece, handlers.on_event);
    return wanted;
  });
  if (!wanted || client_.cancelled()) return {};
  if (!answer.ok()) return Error{answer.error()};
  if (answer->success()) return Error{"the stream ended"};
  const Problem problem = read_problem(*answer);
  if (is_final(answer->status)) throw ServerRefusal(problem);
  return Error{describe(problem)};
}

bool EventStream::wait(milliseconds time) {
  std::unique_lock lock(mutex_);
  return !changed_.wait_for(lock, time, [&] { return ended_; });
}

void EventStream::end() {
  client_.cancel();
  const std::lock_guard lock(mutex_);
  ended_ = true;
  changed_.notify_all();
}

}  // namespace babelring
