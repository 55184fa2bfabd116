#pragma once

#include <cstddef>
#include <deque>
#include <functional>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "base/clock.h"
#include "server/http/lane.h"

namespace babelring::http {

/// A work item for a lane.
struct Work {
  /// Why an item is dropped without running.
  enum class Drop { full, abandoned, ending };

  std::string owner;                // token, or address without a token
  std::string subject;              // id of the run concerned; empty: none
  SteadyClock::time_point arrived;  // arrival of the request
  std::function<void()> run;
  std::function<void(Drop)> drop;        // called instead of run(); empty: the item is never dropped
  std::function<bool()> abandoned = {};  // true once the client has disconnected; may be empty
};

/// A fair queue of work from several owners. pop() serves the owner with the lowest accumulated cost, and each owner's
/// oldest item first. Cost incurred while no other owner waited is not charged. Not thread-safe.
class FairQueue {
 public:
  explicit FairQueue(const LaneLimits& limits) : limits_(limits) {}

  using Dropped = std::vector<std::pair<Work, Work::Drop>>;
  /// Adds an item. Returns the items dropped to make room: abandoned items; then, if the queue is full, the newest item
  /// of the owner with the longest queue, or the new item itself.
  Dropped push(Work work);
  /// Takes the next item that may run. It counts as running until finish(). Returns nothing if no item may run.
  std::optional<Work> pop();
  /// Reports the end of an item of this owner. `cost` is in arbitrary units; at least 1 is charged.
  void finish(const std::string& owner, double cost);
  /// Removes and returns all queued items.
  std::vector<Work> clear();

  std::size_t waiting() const { return waiting_; }
  std::size_t running() const { return running_; }
  /// Arrival time of the oldest queued item, of this subject only unless it is empty.
  std::optional<SteadyClock::time_point> oldest(const std::string& subject = {}) const;

 private:
  struct Line {
    std::deque<Work> work;
    std::size_t running = 0;
    double spent = 0;
    bool filed = false;  // is in ready_
  };
  using Lines = std::map<std::string, Line>;
  using Place = std::pair<double, std::string>;  // spent, owner

  /// Sets the line's accumulated cost to `spent`, and adds the line to ready_ or removes it.
  void file(Lines::value_type& entry, double spent);
  void drop_abandoned(Lines::value_type& entry, Dropped& dropped);
  void forget_idle();

  const LaneLimits limits_;
  Lines lines_;
  std::set<Place> ready_;  // lines with an item that may run
  double clock_ = 0;       // accumulated cost of the line served last
  std::size_t waiting_ = 0, running_ = 0;
};

}  // namespace babelring::http
