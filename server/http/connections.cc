#include "server/http/connections.h"

#include <utility>

#include "server/http/session.h"

namespace babelring::http {

void Connections::add(const std::shared_ptr<Session>& session) {
  const std::lock_guard lock(mutex_);
  sessions_.emplace(session.get(), session);
  ++from_[session->address()];
}

void Connections::remove(Session* session) {
  const std::lock_guard lock(mutex_);
  if (sessions_.erase(session) > 0) {
    const auto found = from_.find(session->address());
    if (--found->second == 0) from_.erase(found);
  }
  changed_.notify_all();  // under the lock: whoever waits for the last one may destroy this right after
}

std::size_t Connections::count() const {
  const std::lock_guard lock(mutex_);
  return sessions_.size();
}

std::size_t Connections::count_from(const std::string& address) const {
  const std::lock_guard lock(mutex_);
  const auto found = from_.find(address);
  return found == from_.end() ? 0 : found->second;
}

Connections::BodyRoom Connections::room_for_body(std::int64_t bytes, std::int64_t most_in_all) {
  if (body_bytes_.fetch_add(bytes) + bytes <= most_in_all) return {body_bytes_, bytes};
  body_bytes_.fetch_sub(bytes);
  return {};
}

std::vector<std::shared_ptr<Session>> Connections::all() const {
  const std::lock_guard lock(mutex_);
  std::vector<std::shared_ptr<Session>> sessions;
  for (const auto& [pointer, weak] : sessions_) {
    if (auto session = weak.lock()) sessions.push_back(std::move(session));
  }
  return sessions;
}

bool Connections::wait_empty(std::chrono::milliseconds limit) {
  std::unique_lock lock(mutex_);
  return changed_.wait_for(lock, limit, [&] { return sessions_.empty(); });
}

}  // namespace babelring::http
