#include "server/http/limits.h"

#include <mutex>
#include <unordered_map>

namespace babelring::http {

struct BodyMemoryState {
  explicit BodyMemoryState(std::int64_t all) : bytes(all) {}

  /// Under the lock.
  bool allows(const std::string& client, std::int64_t more) const {
    const auto found = by_client.find(client);
    const std::int64_t own = found == by_client.end() ? 0 : found->second;
    return own + more <= bytes - held - more;
  }

  const std::int64_t bytes;
  std::mutex mutex;
  std::int64_t held = 0;
  std::unordered_map<std::string, std::int64_t> by_client;
};

BodyMemory::BodyMemory(std::int64_t bytes) : state_(std::make_shared<BodyMemoryState>(bytes)) {}

std::int64_t BodyMemory::held() const {
  const std::lock_guard lock(state_->mutex);
  return state_->held;
}

BodyMemory::Room::~Room() {
  if (bytes_ == 0) return;
  const std::lock_guard lock(state_->mutex);
  state_->held -= bytes_;
  const auto found = state_->by_client.find(client_);
  if ((found->second -= bytes_) == 0) state_->by_client.erase(found);
}

bool BodyMemory::Room::grow_to(std::int64_t bytes) {
  const std::lock_guard lock(state_->mutex);
  const std::int64_t more = bytes - bytes_;
  if (more <= 0) return true;
  if (!state_->allows(client_, more)) return false;
  state_->by_client[client_] += more;
  state_->held += more;
  bytes_ = bytes;
  return true;
}

bool BodyMemory::Room::could_grow_to(std::int64_t bytes) const {
  const std::lock_guard lock(state_->mutex);
  return state_->allows(client_, bytes - bytes_);
}

}  // namespace babelring::http
