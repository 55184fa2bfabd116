#pragma once

#include <chrono>
#include <condition_variable>
#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <unordered_map>
#include <vector>

namespace babelring::http {

class Session;

/// How many sessions there may be.
struct Places {
  std::size_t ordinary = 0;  // that serve any request
  std::size_t reserve = 0;   // beside these, that serve health checks and reports alone
  std::size_t address = 0;   // ordinary ones of one remote address; 0: no limit

  /// Divides `connections`: an eighth, 512 at most, is the reserve.
  static Places of(std::size_t connections, std::size_t an_address);
  /// How many sessions in the reserve one remote address may have, beside its ordinary ones.
  std::size_t reserve_of_address() const;
};

enum class Place : std::uint8_t { none, ordinary, reserve };

/// What a session is doing, as far as it decides whether its place may be given to another connection.
struct Standing {
  enum class Phase : std::uint8_t {
    greeting,  // its first request is not complete
    working,   // a request is being served, or events are being sent
    stalled,   // waits until the client takes bytes
    idle,      // its next request is not complete
    parting,   // the last response is out
  };
  Phase phase = Phase::greeting;
  std::chrono::steady_clock::time_point since;
  bool reporter = false;  // reports with a token
};

/// The live sessions and their places. Where no place is free, those are ended whose client can best do without, in
/// this order: that part; whose first request is not there after a second; whose client has taken nothing for five;
/// that are idle; reporters' that have been idle for ten. Thread-safe.
class Connections {
 public:
  explicit Connections(Places places) : places_(places) {}

  /// The place for a new connection from this address. May end other sessions. `remote`: beyond loopback.
  Place find_place(const std::string& address, bool remote);
  void add(const std::shared_ptr<Session>& session);
  void remove(Session* session);
  std::size_t count() const;
  std::vector<std::shared_ptr<Session>> all() const;

  /// A reserved place's request that is being served, of one client (a token, or an address); false if that client has
  /// too many, more than a quarter of the reserve. Ends on destruction.
  class ReserveShare {
   public:
    ReserveShare(Connections& connections, std::string client);
    ~ReserveShare();
    ReserveShare(const ReserveShare&) = delete;
    ReserveShare& operator=(const ReserveShare&) = delete;
    explicit operator bool() const { return granted_; }

   private:
    Connections& connections_;
    const std::string client_;
    bool granted_ = false;
  };

  /// Waits until no session is left; false if some still are after `limit`.
  bool wait_empty(std::chrono::milliseconds limit);

 private:
  using Time = std::chrono::steady_clock::time_point;
  struct Entry {
    std::weak_ptr<Session> session;
    bool leaving = false;  // was ended to make room, and no longer counts
  };
  using Sessions = std::map<Session*, Entry>;

  using Ended = std::vector<std::shared_ptr<Session>>;  // to be aborted, and released, without the lock
  struct Candidate {
    std::int64_t order;  // the least goes first
    Sessions::iterator entry;
  };

  // All under the lock.
  Place choose_place(const std::string& address, bool remote, Ended& ended);
  std::size_t count_from(const std::string& address) const;
  bool make_room(Time now, Ended& ended);
  /// In the reserve, `of_address` alone unless it is empty.
  bool make_room_in_reserve(const std::string& of_address, Ended& ended);
  bool end_sessions(std::vector<Candidate> candidates, std::size_t most, Ended& ended);
  /// Stops to count a session.
  void forget(Session* session);

  const Places places_;
  mutable std::mutex mutex_;
  std::condition_variable changed_;
  Sessions sessions_;
  std::map<Session*, Sessions::iterator> reserved_;    // those of sessions_ that are in the reserve and not leaving
  std::unordered_map<std::string, std::size_t> from_;  // sessions of each address that are not leaving
  std::unordered_map<std::string, std::size_t> reserve_shares_;
  std::size_t ordinary_ = 0, leaving_ = 0;
  Time next_search_{};
};

}  // namespace babelring::http
