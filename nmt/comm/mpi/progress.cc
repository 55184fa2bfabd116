#include "nmt/comm/mpi/progress.h"

#include <sched.h>
#include <sys/prctl.h>

#include <algorithm>
#include <iterator>
#include <thread>
#include <utility>

#include "nmt/comm/host_name.h"
#include "nmt/comm/schedule/tree.h"

namespace babelring {
namespace {

using std::chrono::duration;
using std::chrono::microseconds;
using std::chrono::milliseconds;
using std::chrono::seconds;

constexpr milliseconds peer_check_interval{20};
constexpr milliseconds error_silence{300};  // after a transport error, a peer silent for this long counts as lost

// Sleep between two polls of messages in flight. 200 us are 25 kB at 1 Gbit/s, far less than socket buffers and posted
// messages hold. Without a link rate limit they have no measurable cost either (docs/performance.md).
constexpr microseconds overlapped_sleep{200}, awaited_sleep{50};
constexpr int awaited_spins = 16;

double seconds_of(Nanoseconds time) {
  return duration<double>(time).count();
}

}  // namespace

MpiProgress::World::World(int own_rank, int all_ranks, std::int64_t segment_bytes)
    : rank(own_rank),
      ranks(all_ranks),
      peers(questions, own_rank, RankTree::by_number(all_ranks).neighbours(own_rank)),
      pool(segment_bytes) {}

MpiProgress::MpiProgress(const CommOptions& options, int rank, int ranks)
    : options_(options), rank_(rank), ranks_(ranks) {
  attach(std::make_shared<EventCount>());
}

void MpiProgress::attach(std::shared_ptr<EventCount> event_count) {
  EventCount* last = event_count_.exchange(event_count.get());
  event_counts_.push_back(std::move(event_count));
  if (last != nullptr) last->notify();
}

void MpiProgress::run() {
  prctl(PR_SET_TIMERSLACK, 1000UL, 0UL, 0UL, 0UL);  // ns; the default of 50 us would lengthen microsecond sleeps
  try {
    world_.emplace(rank_, ranks_, options_.segment_bytes);
    loop();
    world_.reset();
    finish(State::ended, "");
    return;
  } catch (const std::exception& error) {
    finish(State::parked, error.what());
  }
  for (Active& active : active_) active.collective->abort();
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
    EventCount& event_count = *event_count_.load();
    const std::uint32_t seen = event_count.count();
    admit();
    if (active_.empty()) {
      const std::lock_guard lock(mutex_);
      if (stopping_ && queue_.empty()) return;
    }
    const bool moved = advance();
    retire();
    check_peers();
    loops_.fetch_add(1, std::memory_order_relaxed);
    pause(event_count, seen, moved);
  }
}

/// Starts queued collectives in order while the bytes in flight are below the limit.
void MpiProgress::admit() {
  while (active_.empty() || active_bytes_ < options_.in_flight_bytes) {
    Queued queued;
    {
      const std::lock_guard lock(mutex_);
      if (stopping_ && !active_.empty()) throw CommError("the communicator was destroyed with collectives in flight");
      if (queue_.empty()) return;
      queued = std::move(queue_.front());
      queue_.pop_front();
    }
    const auto now = SteadyClock::now();
    if (active_.empty()) busy_since_ = now;
    Active& next = active_.emplace_back(Active{queued.make(*world_, begun_), begun_, queued.asked, now, now});
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
    if (active.done) active_bytes_ -= active.collective->bytes();  // although an earlier one may keep it from retiring
    active.moved = SteadyClock::now();
    any = true;
  }
  return any;
}

CommSpan MpiProgress::span_of(const Active& active) {
  const Collective& collective = *active.collective;
  const Collective::Times times = collective.measured_times().value_or(Collective::Times{active.begun, active.moved});
  return {.name = collective.name(),
          .number = active.sequence,
          .bytes = collective.payload_bytes(),
          .asked = active.asked,
          .begun = times.begun,
          .done = times.done};
}

/// Completes collectives in order.
void MpiProgress::retire() {
  std::int64_t retired = 0;
  std::vector<CommSpan> spans;
  while (!active_.empty() && active_.front().done) {
    if (active_.front().asked != Time()) spans.push_back(span_of(active_.front()));
    active_.pop_front();
    ++retired;
  }
  if (retired == 0) return;
  const auto now = SteadyClock::now();
  if (!active_.empty()) active_.front().moved = now;  // its wait starts now
  const std::lock_guard lock(mutex_);
  completed_ += retired;
  if (recording_) std::move(spans.begin(), spans.end(), std::back_inserter(spans_));
  busy_ms_ += duration<double, std::milli>(now - busy_since_).count();
  busy_since_ = now;
  progressed_.notify_all();
}

/// Answers peers' queries and checks the oldest collective.
void MpiProgress::check_peers() {
  const auto now = SteadyClock::now();
  const auto since_check = now - last_peer_check_;
  if (since_check < peer_check_interval) return;
  last_peer_check_ = now;
  std::int64_t entered = 0;
  {
    const std::lock_guard lock(mutex_);
    entered = submitted_;
    if (new_peers_) world_->peers.set_peers(*std::exchange(new_peers_, std::nullopt));
  }
  world_->peers.serve(entered);
  if (active_.empty()) return;
  Active& oldest = active_.front();
  if (since_check > seconds(1)) oldest.moved = now;  // this process was stopped; do not count the gap as waiting
  check_oldest(oldest, now, entered);
}

/// Queries the peers once the oldest collective has made no progress for a while. Throws CommError if its deadline has
/// expired, its transport has failed, or a peer is silent after fail_fast().
void MpiProgress::check_oldest(Active& oldest, Time now, std::int64_t entered) {
  const Status transport = oldest.collective->status();
  if (transport) {
    error_since_.reset();
  } else if (!error_since_) {
    error_since_ = now;
  }
  const milliseconds silence = error_since_ ? error_silence : milliseconds(silence_ms_.load());
  const bool fast = silence.count() > 0;
  const milliseconds patience = fast ? silence / 4 : std::min(milliseconds(1000), options_.deadline / 4);
  const Nanoseconds waited = now - oldest.moved;
  if (waited < patience) return;
  world_->peers.ask(oldest.moved, patience);
  const bool expired = waited >= options_.deadline || (error_since_ && now - *error_since_ >= 3 * silence);
  const std::vector<std::string> hosts = [this] {
    const std::lock_guard lock(mutex_);
    return hosts_;
  }();
  std::string culprit = fast || expired ? world_->peers.silent(expired ? patience : silence, hosts) : "";
  if (culprit.empty() && !expired) return;
  if (culprit.empty() && !error_since_) culprit = world_->peers.behind(oldest.sequence, hosts);
  if (culprit.empty()) {
    culprit = error_since_ ? "all peers answer"
                           : fmt::format("all peers answer; it waits for rank {}",
                                         rank_name(oldest.collective->waiting_for(), hosts));
  }
  world_->peers.tell(entered);
  const std::string what =
      error_since_
          ? fmt::format("failed on rank {}: {}", rank_name(rank_, hosts), transport.error())
          : fmt::format("made no progress for {:.1f} s on rank {}", seconds_of(waited), rank_name(rank_, hosts));
  throw CommError(fmt::format("{} (collective {}) {}: {}", oldest.collective->name(), oldest.sequence, what, culprit));
}

/// Waits until a poll may find progress. Yields the CPU sooner while the main thread computes.
void MpiProgress::pause(EventCount& event_count, std::uint32_t seen, bool moved) {
  idle_rounds_ = moved ? 0 : idle_rounds_ + 1;
  if (moved) return;
  const bool awaited = awaited_.load();
  if (awaited && !active_.empty() && idle_rounds_ < awaited_spins) {
    sched_yield();
    return;
  }
  const bool polls = std::any_of(active_.begin(), active_.end(),
                                 [](const Active& one) { return !one.done && !one.collective->notified(); });
  event_count.wait(seen, polls ? awaited ? awaited_sleep : overlapped_sleep : microseconds(peer_check_interval));
}

std::int64_t MpiProgress::submit(Make make) {
  const std::lock_guard lock(mutex_);
  if (!error_.empty()) throw CommError(error_);
  queue_.push_back({std::move(make), recording_ ? SteadyClock::now() : Time()});
  event_count_.load()->notify();
  return ++submitted_;
}

void MpiProgress::wait(std::optional<std::int64_t> count) {
  awaited_ = true;
  event_count_.load()->notify();  // ends a long sleep
  auto alive = SteadyClock::now(), last = alive;
  std::int64_t loops = loops_.load();
  std::unique_lock lock(mutex_);
  while (completed_ < count.value_or(submitted_) && error_.empty()) {
    progressed_.wait_for(lock, milliseconds(100));
    const auto now = SteadyClock::now();
    const bool was_stopped = now - last > seconds(1);  // this process was stopped, and its communication thread with it
    if (const std::int64_t current = loops_.load(); current != loops || was_stopped) {
      loops = current;
      alive = now;
    }
    last = now;
    const milliseconds silence(silence_ms_.load());
    const milliseconds limit = silence.count() > 0 ? 2 * silence : options_.deadline + seconds(1);
    if (now - alive > limit) error_ = blocked(now - alive);
  }
  awaited_ = false;
  if (!error_.empty()) throw CommError(error_);
}

/// The message about a communication thread that does not return from MPI. Before the ranks know their hosts this is
/// the first contact.
std::string MpiProgress::blocked(Nanoseconds time) const {
  std::string what = fmt::format("the communication thread of rank {} has been inside one MPI call for {:.1f} s", rank_,
                                 seconds_of(time));
  if (!hosts_.empty()) return what;
  std::vector<std::string> networks;
  for (const auto& [interface, address] : host_networks()) networks.push_back(interface + " " + address);
  return fmt::format(
      "{}: the first contact with the other ranks fails. This host, {}, has {}. If another host has one of these "
      "addresses too, or one does not lead there, choose the network that joins the hosts, as in mpirun --mca "
      "btl_tcp_if_include 10.0.0.0/24; nmt doctor --hosts NAME,… finds it",
      what, host_name(), fmt::join(networks, ", "));
}

bool MpiProgress::stop() {
  std::unique_lock lock(mutex_);
  stopping_ = true;
  event_count_.load()->notify();
  progressed_.wait_for(lock, seconds(5), [this] { return state_ != State::running; });
  return state_ == State::ended;
}

void MpiProgress::set_hosts(std::vector<std::string> hosts, std::vector<int> peers) {
  const std::lock_guard lock(mutex_);
  hosts_ = std::move(hosts);
  new_peers_ = std::move(peers);
}

void MpiProgress::record_spans(bool on) {
  const std::lock_guard lock(mutex_);
  recording_ = on;
  spans_.clear();
}

std::vector<CommSpan> MpiProgress::take_spans() {
  const std::lock_guard lock(mutex_);
  return std::exchange(spans_, {});
}

double MpiProgress::busy_ms() const {
  const std::lock_guard lock(mutex_);
  return busy_ms_;
}

}  // namespace babelring
