#include "server/http/connections.h"

#include <algorithm>
#include <optional>
#include <utility>

namespace babelring::http {
namespace {

using std::chrono::seconds;

constexpr std::size_t max_reserve = 512;
constexpr std::size_t max_leaving = 256;  // they still have their descriptors
constexpr std::chrono::milliseconds search_pause(100);

/// The order in which connections of this phase are ended, 0 first; nothing: they are not ended.
std::optional<std::int64_t> expendability(const Standing& standing, std::chrono::steady_clock::time_point now) {
  const auto age = now - standing.since;
  switch (standing.phase) {
    case Standing::Phase::closing:
      return 0;
    case Standing::Phase::greeting:
      return age >= seconds(1) ? std::optional(1) : std::nullopt;
    case Standing::Phase::stalled:
      return age >= seconds(5) ? std::optional(2) : std::nullopt;
    case Standing::Phase::idle:
      if (!standing.reporter) return 3;
      return age >= seconds(10) ? std::optional(4) : std::nullopt;
    case Standing::Phase::working:
      break;
  }
  return std::nullopt;
}

/// An order by expendability, then by age.
std::int64_t order_of(std::int64_t rank, const Standing& standing) {
  return (rank << 56) + standing.since.time_since_epoch() / std::chrono::microseconds(1);
}

}  // namespace

Places Places::of(std::size_t connections, std::size_t an_address) {
  const std::size_t reserve = std::clamp(connections / 8, std::min<std::size_t>(connections / 2, 8), max_reserve);
  return {connections - reserve, reserve, an_address};
}

std::size_t Places::reserve_of_address() const {
  return std::max<std::size_t>(address / 8, 2);
}

Place Connections::find_place(const std::string& address, bool remote) {
  Ended ended;
  Place place = Place::none;
  {
    const std::lock_guard lock(mutex_);
    place = choose_place(address, remote, ended);
  }
  for (const auto& connection : ended) connection->abort();
  return place;
}

Place Connections::choose_place(const std::string& address, bool remote, Ended& ended) {
  if (leaving_ >= max_leaving) return Place::none;
  const std::size_t from = remote && places_.address > 0 ? count_from(address) : 0;
  const bool crowded = from > 0 && from >= places_.address;
  if (crowded && from >= places_.address + places_.reserve_of_address() && !make_room_in_reserve(address, ended)) {
    return Place::none;
  }
  const bool ordinary =
      !crowded && (ordinary_ < places_.ordinary || make_room(std::chrono::steady_clock::now(), ended));
  if (ordinary) return Place::ordinary;
  return reserved_.size() < places_.reserve || make_room_in_reserve({}, ended) ? Place::reserve : Place::none;
}

bool Connections::make_room(Time now, Ended& ended) {
  if (now < next_search_) return false;
  std::vector<Candidate> candidates;
  for (auto entry = entries_.begin(); entry != entries_.end(); ++entry) {
    if (entry->second.leaving || entry->first->place() == Place::reserve) continue;
    const Standing standing = entry->first->standing();
    if (const auto rank = expendability(standing, now)) candidates.push_back({order_of(*rank, standing), entry});
  }
  const bool any = end_connections(std::move(candidates), places_.ordinary / 64 + 1, ended);
  if (!any) next_search_ = now + search_pause;  // a search for each new connection would cost too much
  return any;
}

bool Connections::make_room_in_reserve(const std::string& of_address, Ended& ended) {
  std::vector<Candidate> candidates;
  for (const auto& [connection, entry] : reserved_) {
    if (!of_address.empty() && connection->address() != of_address) continue;
    const Standing standing = connection->standing();
    if (standing.phase == Standing::Phase::closing) candidates.push_back({order_of(0, standing), entry});
    if (standing.phase == Standing::Phase::greeting) candidates.push_back({order_of(1, standing), entry});
  }
  return end_connections(std::move(candidates), of_address.empty() ? places_.reserve / 8 + 1 : 1, ended);
}

bool Connections::end_connections(std::vector<Candidate> candidates, std::size_t max, Ended& ended) {
  const std::size_t count = std::min({max, candidates.size(), max_leaving - leaving_});
  const auto middle = candidates.begin() + static_cast<std::ptrdiff_t>(count);
  std::partial_sort(candidates.begin(), middle, candidates.end(),
                    [](const Candidate& a, const Candidate& b) { return a.order < b.order; });
  for (auto chosen = candidates.begin(); chosen != middle; ++chosen) {
    auto& [connection, entry] = *chosen->entry;
    forget(connection);
    entry.leaving = true;
    ++leaving_;
    if (auto alive = entry.connection.lock()) ended.push_back(std::move(alive));
  }
  return count > 0;
}

void Connections::forget(Connection* connection) {
  const auto found = from_.find(connection->address());
  if (--found->second == 0) from_.erase(found);
  if (reserved_.erase(connection) == 0) --ordinary_;
}

void Connections::add(const std::shared_ptr<Connection>& connection) {
  const std::lock_guard lock(mutex_);
  const auto entry = entries_.emplace(connection.get(), Entry{connection}).first;
  ++from_[connection->address()];
  if (connection->place() == Place::reserve) {
    reserved_.emplace(connection.get(), entry);
  } else {
    ++ordinary_;
  }
}

void Connections::remove(Connection* connection) {
  const std::lock_guard lock(mutex_);
  if (const auto found = entries_.find(connection); found != entries_.end()) {
    if (found->second.leaving) {
      --leaving_;
    } else {
      forget(connection);
    }
    entries_.erase(found);
  }
  changed_.notify_all();  // under the lock: whoever waits for the last one may destroy this right after
}

std::size_t Connections::count() const {
  const std::lock_guard lock(mutex_);
  return entries_.size();
}

std::size_t Connections::count_from(const std::string& address) const {
  const auto found = from_.find(address);
  return found == from_.end() ? 0 : found->second;
}

std::vector<std::shared_ptr<Connection>> Connections::all() const {
  const std::lock_guard lock(mutex_);
  std::vector<std::shared_ptr<Connection>> connections;
  for (const auto& [pointer, entry] : entries_) {
    if (auto connection = entry.connection.lock()) connections.push_back(std::move(connection));
  }
  return connections;
}

Connections::ReservePlace::ReservePlace(Connections& connections, std::string client)
    : connections_(connections), client_(std::move(client)) {
  const std::lock_guard lock(connections_.mutex_);
  std::size_t& held = connections_.reserve_shares_[client_];
  granted_ = held < std::max<std::size_t>(connections_.places_.reserve / 4, 1);
  if (granted_) ++held;
}

Connections::ReservePlace::~ReservePlace() {
  if (!granted_) return;
  const std::lock_guard lock(connections_.mutex_);
  const auto found = connections_.reserve_shares_.find(client_);
  if (--found->second == 0) connections_.reserve_shares_.erase(found);
}

bool Connections::wait_empty(std::chrono::milliseconds limit) {
  std::unique_lock lock(mutex_);
  return changed_.wait_for(lock, limit, [&] { return entries_.empty(); });
}

}  // namespace babelring::http
