#include "server/http/reply.h"

#include <spdlog/spdlog.h>

#include <atomic>
#include <utility>

#include "server/http/message.h"

namespace babelring::http {

struct Reply::State {
  State(Deliver to, std::function<Response()> otherwise) : deliver(std::move(to)), lost(std::move(otherwise)) {}
  State(const State&) = delete;
  State& operator=(const State&) = delete;
  ~State() {
    if (delivered || !lost) return;
    try {
      deliver(lost());
    } catch (const std::exception& failure) {
      spdlog::error("a lost response could not be replaced: {}", failure.what());
    }
  }

  Deliver deliver;
  std::function<Response()> lost;
  std::atomic<bool> delivered = false;
};

Reply::Reply(Deliver deliver, std::function<Response()> lost)
    : state_(std::make_shared<State>(std::move(deliver), std::move(lost))) {}

void Reply::operator()(Response response) const {
  if (state_->delivered.exchange(true)) return;
  try {
    state_->deliver(std::move(response));
  } catch (...) {
    state_->delivered = false;
    throw;
  }
}

}  // namespace babelring::http
