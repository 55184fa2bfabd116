#include "server/artifacts/downloads.h"

#include <fmt/format.h>

#include "server/http/problem.h"

namespace babelring::artifacts {

http::Response Downloads::count(const http::Request& request, const std::string& id, http::Response response) {
  if (request.method != "HEAD" && response.status < 300) response.held = begin(request, id);
  return response;
}

std::shared_ptr<const void> Downloads::begin(const http::Request& request, const std::string& id) {
  const std::string who = request.caller ? request.caller->token : request.address;
  const std::lock_guard lock(state_->mutex);
  int& active = state_->by_client[who];
  if (active >= max_per_client) {
    throw http::Problem(
        429, "too_many_downloads",
        fmt::format("this {} already has {} active downloads, the max", request.caller ? "token" : "address", active));
  }
  ++active;
  ++state_->by_id[id];
  const auto end = [state = state_, who, id](const void*) {
    const std::lock_guard ending(state->mutex);
    if (--state->by_client[who] == 0) state->by_client.erase(who);
    if (--state->by_id[id] == 0) state->by_id.erase(id);
  };
  return {state_.get(), end};
}

std::shared_ptr<const void> Downloads::hold(const std::string& id) {
  const std::lock_guard lock(state_->mutex);
  ++state_->by_id[id];
  const auto end = [state = state_, id](const void*) {
    const std::lock_guard ending(state->mutex);
    if (--state->by_id[id] == 0) state->by_id.erase(id);
  };
  return {state_.get(), end};
}

bool Downloads::in_use(const std::string& id) const {
  const std::lock_guard lock(state_->mutex);
  return state_->by_id.contains(id);
}

}  // namespace babelring::artifacts
