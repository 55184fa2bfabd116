#include "nmt/comm/mpi_progress.h"

#include <sched.h>
#include <sys/prctl.h>

#include <algorithm>
#include <thread>

namespace babelring {
namespace {

using std::chrono::duration;
using std::chrono::microseconds;
using std::chrono::milliseconds;
using std::chrono::seconds;

constexpr milliseconds look_interval{20};     // between two looks at the peers
constexpr milliseconds trouble_silence{300};  // of a peer that counts as lost when a transport has failed

// Between two looks at messages on their way. 200 us are 25 kB at 1 Gbit/s, far less than what sockets and posted
// messages hold; without a limit on the rate they cost nothing measurable either (docs/performance.md).
constexpr microseconds overlapped_nap{200}, awaited_nap{50};
constexpr int awaited_spins = 16;

double seconds_of(Nanoseconds time) {
  return duration<double>(time).count();
}

}  // namespace

MpiProgress::World::World(int own_rank, int all_ranks, std::int64_t segment_bytes)
    : rank(own_rank), ranks(all_ranks), roll_call(questions, own_rank, all_ranks), pool(segment_bytes) {}

MpiProgress::MpiProgress(const CommOptions& options, int rank, int ranks)
    : options_(options), rank_(rank), ranks_(ranks) {
  attach(std::make_shared<Bell>());
}

void MpiProgress::attach(std::shared_ptr<Bell> bell) {
  Bell* last = bell_.exchange(bell.get());
  bells_.push_back(std::move(bell));
  if (last != nullptr) last->ring();
}

void MpiProgress::run() {
  prctl(PR_SET_TIMERSLACK, 1000UL, 0UL, 0UL, 0UL);  // ns: sleeps of microseconds shall be that short
  try {
    world_.emplace(rank_, ranks_, options_.segment_bytes);
    loop();
    world_.reset();
    finish(State::ended, "");
    return;
  } catch (const std::exception& error) {
    finish(State::parked, error.what());
  }
  for (Active& active : active_) active.collective->give_up();
  while (true) std::this_thread::sleep_for(std::chrono::hours(1));
}

void MpiProgress::finish(State state, const std::string& error) {
  const std::lock_guard lock(mutex_);
  state_ = state;
  error_ = error;
  progressed_.notify_all();
}

void MpiProgress::loop() {
  while (true) {
    Bell& bell = *bell_.load();
    const std::uint32_t rung = bell.count();
    admit();
    if (active_.empty()) {
      const std::lock_guard lock(mutex_);
      if (stopping_ && queue_.empty()) return;
    }
    const bool moved = advance();
    retire();
    look_after_peers();
    loops_.fetch_add(1, std::memory_order_relaxed);
    pause(bell, rung, moved);
  }
}

/// Begins queued collectives, in order, as long as what is in flight is little enough.
void MpiProgress::admit() {
  while (active_.empty() || active_bytes_ < options_.in_flight_bytes) {
    Make make;
    {
      const std::lock_guard lock(mutex_);
      if (stopping_ && !active_.empty()) throw CommError("the communicator was destroyed with collectives in flight");
      if (queue_.empty()) return;
      make = std::move(queue_.front());
      queue_.pop_front();
    }
    const auto now = SteadyClock::now();
    if (active_.empty()) busy_since_ = now;
    Active& next = active_.emplace_back(Active{make(*world_, begun_), begun_, now});
    ++begun_;
    active_bytes_ += next.collective->bytes();
    next.collective->begin();
  }
}

bool MpiProgress::advance() {
  bool any = false;
  for (Active& active : active_) {
    if (active.done) continue;
    const auto progress = active.collective->advance();
    if (progress == Collective::Progress::none) continue;
    active.done = progress == Collective::Progress::done;
    active.moved = SteadyClock::now();
    any = true;
  }
  return any;
}

/// Completes collectives in order.
void MpiProgress::retire() {
  std::int64_t retired = 0;
  while (!active_.empty() && active_.front().done) {
    active_bytes_ -= active_.front().collective->bytes();
    active_.pop_front();
    ++retired;
  }
  if (retired == 0) return;
  const auto now = SteadyClock::now();
  if (!active_.empty()) active_.front().moved = now;  // its turn has only come now
  const std::lock_guard lock(mutex_);
  completed_ += retired;
  busy_ms_ += duration<double, std::milli>(now - busy_since_).count();
  busy_since_ = now;
  progressed_.notify_all();
}

/// Answers the peers' questions; asks them in turn when the oldest collective has not moved for a while; gives up on it
/// when the deadline has passed, its transport is in trouble, or a peer is silent after fail_fast().
void MpiProgress::look_after_peers() {
  const auto now = SteadyClock::now();
  const auto since_look = now - last_look_;
  if (since_look < look_interval) return;
  last_look_ = now;
  std::int64_t entered = 0;
  {
    const std::lock_guard lock(mutex_);
    entered = submitted_;
  }
  world_->roll_call.serve(entered);
  if (active_.empty()) return;
  Active& oldest = active_.front();
  if (since_look > seconds(1)) oldest.moved = now;  // this process was stopped itself: nobody kept it waiting
  judge(oldest, now);
}

/// Throws CommError when it is time to give up on the oldest collective.
void MpiProgress::judge(Active& oldest, Time now) {
  const std::string trouble = oldest.collective->trouble();
  if (trouble.empty()) {
    troubled_since_.reset();
  } else if (!troubled_since_) {
    troubled_since_ = now;
  }
  const milliseconds silence = troubled_since_ ? trouble_silence : milliseconds(silence_ms_.load());
  const bool fast = silence.count() > 0;
  const milliseconds patience = fast ? silence / 4 : std::min(milliseconds(1000), options_.deadline / 4);
  const Nanoseconds waited = now - oldest.moved;
  if (waited < patience) return;
  world_->roll_call.ask();
  const bool expired = waited >= options_.deadline || (troubled_since_ && now - *troubled_since_ >= 3 * silence);
  std::string culprit = fast || expired ? silent_peers(expired ? patience : silence) : "";
  if (culprit.empty() && !expired) return;
  if (culprit.empty() && !troubled_since_) culprit = peer_behind();
  if (culprit.empty()) {
    culprit = troubled_since_
                  ? "all peers answer"
                  : fmt::format("all peers answer; it waits for rank {}", peer_name(oldest.collective->waiting_for()));
  }
  const std::string what =
      troubled_since_ ? fmt::format("failed on rank {}: {}", peer_name(rank_), trouble)
                      : fmt::format("made no progress for {:.1f} s on rank {}", seconds_of(waited), peer_name(rank_));
  throw CommError(fmt::format("{} (collective {}) {}: {}", oldest.collective->name(), oldest.sequence, what, culprit));
}

/// The peers that have not answered for `silence`; empty if all have.
std::string MpiProgress::silent_peers(Nanoseconds silence) const {
  const auto& peers = world_->roll_call.peers();
  const auto now = SteadyClock::now();
  std::string silent;
  for (int rank = 0; rank < ranks_; ++rank) {
    const auto& unanswered = peers[static_cast<std::size_t>(rank)].unanswered_since;
    if (unanswered && now - *unanswered >= silence) silent += (silent.empty() ? "" : ", ") + peer_name(rank);
  }
  return silent.empty() ? "" : fmt::format("no answer from rank {}: stopped or lost", silent);
}

/// The peer that has entered the fewest collectives, if the oldest in flight is not among them; else empty.
std::string MpiProgress::peer_behind() const {
  const auto& peers = world_->roll_call.peers();
  int last = -1;
  std::int64_t fewest = active_.front().sequence + 1;
  for (int rank = 0; rank < ranks_; ++rank) {
    const auto& entered = peers[static_cast<std::size_t>(rank)].entered;
    if (!entered || *entered >= fewest) continue;
    last = rank;
    fewest = *entered;
  }
  if (last < 0) return "";
  return fmt::format("rank {} answers, but has entered only {} collectives", peer_name(last), fewest);
}

std::string MpiProgress::peer_name(int rank) const {
  if (rank < 0) return "any";
  const std::lock_guard lock(mutex_);
  const auto index = static_cast<std::size_t>(rank);
  return index < hosts_.size() ? fmt::format("{} (host {})", rank, hosts_[index]) : fmt::format("{}", rank);
}

/// Waits until something may have moved. While the other thread computes, it needs the processor more.
void MpiProgress::pause(Bell& bell, std::uint32_t rung, bool moved) {
  idle_rounds_ = moved ? 0 : idle_rounds_ + 1;
  if (moved) return;
  const bool awaited = awaited_.load();
  if (awaited && !active_.empty() && idle_rounds_ < awaited_spins) {
    sched_yield();
    return;
  }
  const bool polls = std::any_of(active_.begin(), active_.end(),
                                 [](const Active& one) { return !one.done && !one.collective->rings(); });
  bell.wait(rung, polls ? awaited ? awaited_nap : overlapped_nap : microseconds(look_interval));
}

void MpiProgress::submit(Make make) {
  const std::lock_guard lock(mutex_);
  if (!error_.empty()) throw CommError(error_);
  queue_.push_back(std::move(make));
  ++submitted_;
  bell_.load()->ring();
}

void MpiProgress::wait() {
  awaited_ = true;
  bell_.load()->ring();  // it may be in the middle of a long nap
  auto alive = SteadyClock::now(), last = alive;
  std::int64_t loops = loops_.load();
  std::unique_lock lock(mutex_);
  while (completed_ < submitted_ && error_.empty()) {
    progressed_.wait_for(lock, milliseconds(100));
    const auto now = SteadyClock::now();
    const bool was_stopped = now - last > seconds(1);  // this process itself: then its other thread was as well
    if (const std::int64_t current = loops_.load(); current != loops || was_stopped) {
      loops = current;
      alive = now;
    }
    last = now;
    const milliseconds silence(silence_ms_.load());
    const milliseconds limit = silence.count() > 0 ? 2 * silence : options_.deadline + seconds(1);
    if (now - alive > limit) {
      error_ = fmt::format("the communication thread of rank {} has been inside one MPI call for {:.1f} s", rank_,
                           seconds_of(now - alive));
    }
  }
  awaited_ = false;
  if (!error_.empty()) throw CommError(error_);
}

bool MpiProgress::stop() {
  std::unique_lock lock(mutex_);
  stopping_ = true;
  bell_.load()->ring();
  progressed_.wait_for(lock, seconds(5), [this] { return state_ != State::running; });
  return state_ == State::ended;
}

void MpiProgress::set_hosts(std::vector<std::string> hosts) {
  const std::lock_guard lock(mutex_);
  hosts_ = std::move(hosts);
}

double MpiProgress::busy_ms() const {
  const std::lock_guard lock(mutex_);
  return busy_ms_;
}

}  // namespace babelring
