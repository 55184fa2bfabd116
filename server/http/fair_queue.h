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

/// One piece of work for a lane.
struct Work {
  /// Why work is dropped without being run.
  enum class Drop { full, abandoned, ending };

  std::string owner;                // who asks: a token, or an address without a token
  std::string subject;              // the run it is about; empty: none
  SteadyClock::time_point arrived;  // of the request
  std::function<void()> run;
  std::function<void(Drop)> drop;        // called instead of run(); empty: the work is never refused
  std::function<bool()> abandoned = {};  // whether nobody waits for it any more; empty: somebody does
};

/// Work of several owners, handed out so that each gets the same share of the time: the next is of the owner whose work
/// has cost least, and of one owner the oldest. What an owner used while nobody else waited is not held against it. Not
/// thread-safe.
class FairQueue {
 public:
  explicit FairQueue(const LaneLimits& limits) : limits_(limits) {}

  using Dropped = std::vector<std::pair<Work, Work::Drop>>;
  /// Adds work. Returns what had to go for it: abandoned work, where the queue is full the newest of the owner with
  /// most of it, or the work itself.
  Dropped push(Work work);
  /// The next work that may run; its owner counts as running until finish(). Nothing: none may.
  std::optional<Work> pop();
  /// Work of this owner has ended. `cost` is in any unit above 0, in which at least 1 is counted.
  void finish(const std::string& owner, double cost);
  /// Everything that waits.
  std::vector<Work> clear();

  std::size_t waiting() const { return waiting_; }
  std::size_t running() const { return running_; }
  /// When the oldest of the waiting work arrived; only of that subject, unless it is empty.
  std::optional<SteadyClock::time_point> oldest(const std::string& subject = {}) const;

 private:
  struct Line {
    std::deque<Work> work;
    std::size_t running = 0;
    double spent = 0;
    bool filed = false;  // in ready_
  };
  using Lines = std::map<std::string, Line>;
  using Place = std::pair<double, std::string>;  // spent, owner

  /// Enters the line into ready_, or takes it out, with `spent` as its new place.
  void file(Lines::value_type& entry, double spent);
  void drop_abandoned(Lines::value_type& entry, Dropped& dropped);
  void forget_idle();

  const LaneLimits limits_;
  Lines lines_;
  std::set<Place> ready_;  // lines of which the first may run
  double clock_ = 0;       // the place of the line served last
  std::size_t waiting_ = 0, running_ = 0;
};

}  // namespace babelring::http
