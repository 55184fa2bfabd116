#include "client/event_stream.h"

#include <algorithm>
#include <utility>

#include "client/problem.h"

namespace babelring {

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
