#pragma once

#include <atomic>
#include <chrono>
#include <condition_variable>
#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <unordered_map>
#include <utility>
#include <vector>

namespace babelring::http {

/// Maximum numbers of connections.
struct Places {
  std::size_t ordinary = 0;  // for any request
  std::size_t reserve = 0;   // in addition, for health checks and reports only
  std::size_t address = 0;   // ordinary connections per remote address; 0: no limit

  /// Divides `connections`: an eighth, at most 512, is the reserve.
  static Places of(std::size_t connections, std::size_t an_address);
  /// Max connections in the reserve per remote address.
  std::size_t reserve_of_address() const;
};

enum class Place : std::uint8_t { none, ordinary, reserve };

/// The activity of a connection. It decides which connections are ended first to make room for new ones.
struct Standing {
  enum class Phase : std::uint8_t {
    greeting,  // its first request is not complete
    working,   // a request is being served, or events are being sent
    stalled,   // waits for the client to read
    idle,      // its next request is not complete
    closing,   // the last response was sent
  };
  Phase phase = Phase::greeting;
  std::chrono::steady_clock::time_point since;
  bool reporter = false;  // it has reported records with a token
};

/// The standing of a connection. Changed on the connection's thread only; any thread may read it.
class Activity {
 public:
  Standing::Phase phase() const { return phase_.load(std::memory_order_relaxed); }
  /// Begins a phase now.
  void enter(Standing::Phase phase) {
    since_.store(std::chrono::steady_clock::now().time_since_epoch().count(), std::memory_order_relaxed);
    return_to(phase);
  }
  /// Continues an earlier phase, without a new beginning.
  void return_to(Standing::Phase phase) { phase_.store(phase, std::memory_order_relaxed); }
  void set_reporter() { reporter_.store(true, std::memory_order_relaxed); }

  Standing standing() const {
    const std::chrono::steady_clock::duration since(since_.load(std::memory_order_relaxed));
    return {phase(), std::chrono::steady_clock::time_point(since), reporter_.load(std::memory_order_relaxed)};
  }

 private:
  std::atomic<Standing::Phase> phase_ = Standing::Phase::greeting;
  std::atomic<std::chrono::steady_clock::rep> since_ = std::chrono::steady_clock::now().time_since_epoch().count();
  std::atomic<bool> reporter_ = false;
};

/// A connection that holds a place. Thread-safe, except where a function says otherwise.
class Connection {
 public:
  Connection(std::string address, Place place) : address_(std::move(address)), place_(place) {}
  virtual ~Connection() = default;
  Connection(const Connection&) = delete;
  Connection& operator=(const Connection&) = delete;

  /// Ends the connection after the response in progress; at once if it is idle or streams events.
  virtual void finish() = 0;
  /// Ends the connection now.
  virtual void abort() = 0;

  const std::string& address() const { return address_; }
  Place place() const { return place_; }
  Standing standing() const { return activity_.standing(); }

 protected:
  Activity& activity() { return activity_; }

 private:
  const std::string address_;
  const Place place_;
  Activity activity_;
};

/// The live connections and their places. If no place is free, connections are ended to make room, in this order:
/// closing connections; those without a complete first request after 1 s; those whose client has read nothing for 5 s;
/// idle connections; connections of reporters that have been idle for 10 s. Thread-safe.
class Connections {
 public:
  explicit Connections(Places places) : places_(places) {}

  /// The place for a new connection from this address, or Place::none. May end other connections. `remote`: the address
  /// is not loopback.
  Place find_place(const std::string& address, bool remote);
  void add(const std::shared_ptr<Connection>& connection);
  void remove(Connection* connection);
  std::size_t count() const;
  std::vector<std::shared_ptr<Connection>> all() const;

  /// Counts a request that is being served in the reserve against its client, a token or an address, until destruction.
  /// False if the client already has a quarter of the reserve.
  class ReservePlace {
   public:
    ReservePlace(Connections& connections, std::string client);
    ~ReservePlace();
    ReservePlace(const ReservePlace&) = delete;
    ReservePlace& operator=(const ReservePlace&) = delete;
    explicit operator bool() const { return granted_; }

   private:
    Connections& connections_;
    const std::string client_;
    bool granted_ = false;
  };

  /// Waits until no connection is left. Returns false if some are left after `limit`.
  bool wait_empty(std::chrono::milliseconds limit);

 private:
  using Time = std::chrono::steady_clock::time_point;
  struct Entry {
    std::weak_ptr<Connection> connection;
    bool leaving = false;  // it was ended to make room and is no longer counted
  };
  using Entries = std::map<Connection*, Entry>;

  using Ended =
      std::vector<std::shared_ptr<Connection>>;  // connections to abort and release after the lock is released
  struct Candidate {
    std::int64_t order;  // the lowest is ended first
    Entries::iterator entry;
  };

  // These require the lock.
  Place choose_place(const std::string& address, bool remote, Ended& ended);
  std::size_t count_from(const std::string& address) const;
  bool make_room(Time now, Ended& ended);
  /// Considers connections in the reserve, and only those of `of_address` unless it is empty.
  bool make_room_in_reserve(const std::string& of_address, Ended& ended);
  bool end_connections(std::vector<Candidate> candidates, std::size_t max, Ended& ended);
  /// Stops counting a connection.
  void forget(Connection* connection);

  const Places places_;
  mutable std::mutex mutex_;
  std::condition_variable changed_;
  Entries entries_;
  std::map<Connection*, Entries::iterator> reserved_;  // entries_ in the reserve that are not leaving
  std::unordered_map<std::string, std::size_t> from_;  // connections of each address that are not leaving
  std::unordered_map<std::string, std::size_t> reserve_shares_;
  std::size_t ordinary_ = 0, leaving_ = 0;
  Time next_search_{};
};

}  // namespace babelring::http
