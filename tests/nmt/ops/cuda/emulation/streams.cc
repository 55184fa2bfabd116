#include "tests/nmt/ops/cuda/emulation/streams.h"

#include <algorithm>

namespace babelring::emulation {

Stream* Streams::create() {
  return &streams_.emplace_back();
}

void Streams::destroy(Stream* stream) {
  run_until_empty(*stream);
  streams_.remove_if([&](const Stream& one) { return &one == stream; });
}

bool Streams::run_one() {
  std::vector<Stream*> can_go_on;
  for (Stream& stream : streams_) {
    if (stream.queue.empty()) continue;
    const Mark* awaited = stream.queue.front().awaits.get();
    if (awaited == nullptr || awaited->reached) can_go_on.push_back(&stream);
  }
  if (can_go_on.empty()) return false;
  Stream& stream = *can_go_on[static_cast<std::size_t>(random_.below(can_go_on.size()))];
  const Task task = std::move(stream.queue.front());
  stream.queue.pop_front();
  std::string text = task.work ? task.work() : "";
  if (fault_.empty()) fault_ = std::move(text);
  return true;
}

void Streams::run_all() {
  while (run_one()) {
  }
}

void Streams::run_until_empty(const Stream& stream) {
  while (!stream.queue.empty() && run_one()) {
  }
  if (!stream.queue.empty() && fault_.empty()) fault_ = "a stream waits for an event that is never reached";
}

void Streams::run_until(const Mark& mark) {
  while (!mark.reached && run_one()) {
  }
  if (!mark.reached && fault_.empty()) fault_ = "an event is waited for that is never reached";
}

}  // namespace babelring::emulation
