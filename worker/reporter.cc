#include "worker/reporter.h"

#include <fmt/format.h>
#include <spdlog/spdlog.h>

#include <algorithm>
#include <utility>

#include "base/log.h"

namespace babelring {
namespace {

namespace fs = std::filesystem;
using std::chrono::milliseconds;

constexpr std::int64_t in_memory = -1;  // `end` of a batch that is not from the file
constexpr std::size_t max_batch_records = 1000;
constexpr std::size_t max_batch_bytes = std::size_t{1} << 20;
constexpr milliseconds max_requested_delay{60000};  // limit on Retry-After
constexpr milliseconds silent_wait{1000};           // at the end, before a line says that records wait
constexpr std::size_t max_refusals_logged = 10;     // with different reasons

}  // namespace

Reporter::Reporter(ReporterOptions options)
    : options_(std::move(options)), writer_(spool_of(options_.identity.rank), options_.spool_limits) {
  if (options_.server.address.empty()) return;
  client_ =
      std::make_unique<HttpClient>(options_.server.address, client_options(options_.server, options_.request_timeout));
  thread_ = std::thread([this] { send_loop(); });
}

Reporter::~Reporter() {
  close(milliseconds(2000), false);
}

fs::path Reporter::spool_of(std::int64_t rank) const {
  return spool_path(options_.spool_folder, options_.identity.attempt, rank);
}

void Reporter::write(RecordBody body) {
  const bool is_log = std::holds_alternative<LogRecord>(body);
  std::unique_lock lock(mutex_);
  RecordHeader header{
      .run = options_.identity.run, .attempt = options_.identity.attempt, .sequence = writer_.next_sequence()};
  header.rank = options_.identity.rank;
  header.host = options_.identity.host;
  header.time_ms = wall_time_ms();
  writer_.append({std::move(header), std::move(body)});
  ++written_;
  changed_.notify_all();
  if (is_log) return;  // a warning would be logged as a record from within this call
  const std::string notice = spool_notice();
  lock.unlock();
  if (!notice.empty()) spdlog::warn("{}", notice);
}

std::string Reporter::spool_notice() {
  const fs::path file = spool_of(options_.identity.rank);
  const std::int64_t dropped = writer_.dropped() - drops_logged_;
  const Status last = writer_.last_write();
  if (!last && !std::exchange(spool_fails_, true)) {
    return fmt::format("spool {}: cannot be written: {}; training continues, records are kept in memory", file.string(),
                       last.error());
  }
  if ((!spool_fails_ && dropped == 0) || writer_.kept_records() > 0) return "";
  if (last) {
    spool_fails_ = false;
  } else if (dropped == 0) {
    return "";
  }
  drops_logged_ += dropped;
  return fmt::format(
      "spool {}: {}{}", file.string(), spool_fails_ ? "records kept in memory were sent" : "can be written again",
      dropped == 0 ? "" : fmt::format("; {} records of rank {} were dropped", dropped, options_.identity.rank));
}

void Reporter::close_spool() {
  std::unique_lock lock(mutex_);
  if (std::exchange(closed_, true)) return;
  const std::int64_t drops_logged = drops_logged_;
  lock.unlock();
  writer_.write_kept();
  writer_.release();  // nobody needs to wait for this rank any more
  const std::int64_t lost = writer_.kept_records() + writer_.dropped() - drops_logged;
  const Status last = writer_.last_write();
  if (lost == 0) return;
  spdlog::error("spool {}: {}; {} records of rank {} are lost", spool_of(options_.identity.rank).string(),
                last ? "could not be written for a while" : "cannot be written: " + last.error(), lost,
                options_.identity.rank);
}

std::int64_t Reporter::close(milliseconds timeout, bool wait_for_served) {
  if (!thread_.joinable()) {
    close_spool();
    return remaining_;
  }
  {
    std::unique_lock lock(mutex_);
    closing_ = true;
    wait_for_served_ = wait_for_served;
    changed_.notify_all();
    const auto end = SteadyClock::now() + timeout;
    if (!changed_.wait_until(lock, std::min(end, SteadyClock::now() + silent_wait), [&] { return finished_; })) {
      lock.unlock();
      announce_wait(timeout);
      lock.lock();
      changed_.wait_until(lock, end, [&] { return finished_; });
    }
    stop_ = true;
    changed_.notify_all();
  }
  client_->cancel();
  thread_.join();
  close_spool();
  // Count before logging the warnings, which may become records.
  for (Sending& older : older_) remaining_ += older.spool.remaining();
  remaining_ +=
      spools_.empty() ? SpoolReader(spool_of(options_.identity.rank)).remaining() : spools_[0].spool.remaining();
  if (skipped_ > 0) {
    spdlog::warn("{} records of rank {} were refused by {} and skipped; they are still in {}", skipped_,
                 options_.identity.rank, options_.server.address, options_.spool_folder.string());
  }
  if (remaining_ > 0) {
    spdlog::warn(
        "{} records of rank {} were not confirmed by {}; they stay in {}: send them with `nmt run sync {}`, or start "
        "the "
        "run again",
        remaining_, options_.identity.rank, options_.server.address, options_.spool_folder.string(),
        options_.spool_folder.parent_path().string());
  }
  return remaining_;
}

void Reporter::announce_wait(milliseconds timeout) const {
  const std::int64_t waiting = SpoolReader(spool_of(options_.identity.rank)).remaining();
  if (waiting == 0) return;  // only served ranks have records left
  spdlog::info("{} records of rank {} are not confirmed by {} yet; waiting for them for at most {} s", waiting,
               options_.identity.rank, options_.server.address,
               std::chrono::duration_cast<std::chrono::seconds>(timeout).count());
}

void Reporter::send_loop() try {
  if (wait_for_sender()) {
    send_older_spools(false);
    spools_.emplace_back(spool_of(options_.identity.rank));
    for (const std::int64_t rank : options_.sender.served) spools_.emplace_back(spool_of(rank));
    send_spools();
  }
  end_sending();
} catch (const std::exception& error) {
  spdlog::error("reporting to {} stopped; records stay in {}: {}", options_.server.address,
                options_.spool_folder.string(), error.what());
  end_sending();
}

void Reporter::end_sending() {
  writer_.release();  // so that served ranks do not wait for this rank, which may have been refused
  const std::lock_guard lock(mutex_);
  finished_ = true;
  changed_.notify_all();
}

bool Reporter::wait_for_sender() {
  if (!options_.sender.by) return true;
  const fs::path theirs = spool_of(*options_.sender.by), own = spool_of(options_.identity.rank);
  const auto patience = SteadyClock::now() + options_.sender.patience;
  for (bool met = false;;) {
    std::unique_lock lock(mutex_);
    const bool was_closing = closing_;
    changed_.wait_for(lock, was_closing ? options_.post_interval : 4 * options_.post_interval,
                      [&] { return stop_ || closing_ != was_closing; });
    if (stop_) return false;
    const bool closing = closing_;
    lock.unlock();
    if (writer_.stuck()) return true;
    if (closing && SpoolReader(own).remaining() == 0) return false;
    const bool writes = has_writer(theirs);
    met = met || writes || fs::exists(theirs);
    if (writes || (!met && SteadyClock::now() < patience)) continue;
    spdlog::info("rank {} sends no more: rank {} sends its records itself", *options_.sender.by,
                 options_.identity.rank);
    return true;
  }
}

std::vector<Reporter::Sending> Reporter::older_spools(bool check) const {
  std::set<std::int64_t> ranks(options_.sender.served.begin(), options_.sender.served.end());
  ranks.insert(options_.identity.rank);
  std::vector<Sending> spools;
  for (const SpoolFile& place : list_spools(options_.spool_folder)) {
    if (place.attempt >= options_.identity.attempt) continue;
    if (options_.identity.rank != 0 && !ranks.contains(place.rank)) continue;
    Sending older(place.file);
    if (older.spool.remaining() == 0) {
      const std::int64_t last = check ? last_spool_sequence(place.file) : 0;
      if (last == 0) continue;
      older.spool.seek(last - 1);  // so that its last record is sent again, which asks for those before it
      older.confirmed = last;
    }
    spools.push_back(std::move(older));
  }
  return spools;
}

void Reporter::send_older_spools(bool check) {
  older_ = older_spools(check);
  for (Sending& older : older_) {
    while (!stopped()) {
      wait_for_turn();
      const SpoolReader::Batch batch = older.spool.next(max_batch_records, max_batch_bytes);
      if (batch.lines == 0) break;
      const Course course = deliver(older, batch.records);
      if (course == Course::ended) break;
      if (course == Course::settled) older.spool.acknowledge(batch);
    }
    older.spool.save_acknowledged();
  }
  check_older_ = false;  // this was the check, whatever was missing
}

void Reporter::send_spools() {
  auto saved = SteadyClock::now();
  while (!stopped()) {
    wait_for_turn();
    const std::int64_t seen = written();
    bool any = false;
    for (Sending& sending : spools_) any = send_next(sending) || any;
    if (!any || SteadyClock::now() - saved >= std::chrono::seconds(1)) {
      for (Sending& sending : spools_) sending.spool.save_acknowledged();
      saved = SteadyClock::now();
    }
    if (barred_) break;  // served ranks need not wait either
    if (check_older_) send_older_spools(true);
    if (!any && !wait_for_more(seen)) return;
  }
  for (Sending& sending : spools_) sending.spool.save_acknowledged();
}

bool Reporter::send_next(Sending& sending) {
  const SpoolReader::Batch batch = next_batch(sending.spool, &sending == &spools_[0]);
  if (batch.lines == 0) return false;
  const Course course = deliver(sending, batch.records);
  if (course == Course::settled) settle(sending.spool, batch);
  return course != Course::ended;
}

bool Reporter::wait_for_more(std::int64_t seen) {
  const bool serves = !options_.sender.served.empty();
  std::unique_lock lock(mutex_);
  const auto due = [&] { return written_ != seen || stop_; };
  if (closing_) {
    if (stop_ || written_ != seen) return !stop_;
    const bool wait = wait_for_served_;
    lock.unlock();
    if (!serves || !wait || !served_rank_writes()) return false;
    lock.lock();
    changed_.wait_for(lock, options_.post_interval, due);
  } else if (serves) {
    changed_.wait_for(lock, options_.post_interval, [&] { return due() || closing_; });
  } else {
    changed_.wait(lock, [&] { return due() || closing_; });
  }
  return !stop_;
}

bool Reporter::served_rank_writes() const {
  return std::ranges::any_of(options_.sender.served, [&](std::int64_t rank) { return has_writer(spool_of(rank)); });
}

std::int64_t Reporter::written() {
  const std::lock_guard lock(mutex_);
  return written_;
}

void Reporter::settle(SpoolReader& spool, const SpoolReader::Batch& batch) {
  if (batch.end >= 0) return spool.acknowledge(batch);
  const std::lock_guard lock(mutex_);
  writer_.forget_kept(batch.records.back().header.sequence);
}

SpoolReader::Batch Reporter::next_batch(SpoolReader& spool, bool own) {
  for (;;) {
    const std::int64_t seen = written();
    SpoolReader::Batch batch = spool.next(max_batch_records, max_batch_bytes);
    if (batch.lines > 0 || !own) return batch;
    const std::lock_guard lock(mutex_);
    if (written_ != seen) continue;  // the file may have more
    batch.records = writer_.kept(max_batch_records, max_batch_bytes);
    batch.lines = static_cast<std::int64_t>(batch.records.size());
    batch.end = in_memory;
    return batch;
  }
}

Reporter::Course Reporter::deliver(Sending& sending, std::span<const Record> records) {
  std::vector<std::span<const Record>> left;  // a stack of parts to send
  if (!records.empty()) left.push_back(records);
  while (!left.empty()) {
    if (stopped()) return Course::ended;
    const auto part = left.back();
    const PostedBatch posted = send(sending, part);
    const bool alone = part.size() == 1;
    if (posted.delivery == Delivery::missing && posted.stored < sending.confirmed) {
      go_back(sending, posted.stored);
      return Course::went_back;
    }
    const bool refused = posted.delivery == Delivery::refused || (posted.delivery == Delivery::oversized && !alone);
    if (posted.delivery != Delivery::stored && !refused) {
      if (!stopped()) report_outage(posted.why);
      if (posted.delivery == Delivery::barred && closing()) {  // waiting gives no other token
        barred_ = true;
        return Course::ended;
      }
      wait_to_retry();
      continue;
    }
    left.pop_back();
    if (posted.delivery == Delivery::stored) {
      sending.confirmed = part.back().header.sequence;
    } else if (alone) {
      skip(part.front(), posted.why);
    } else {
      left.push_back(part.subspan(part.size() / 2));
      left.push_back(part.first(part.size() / 2));
    }
  }
  return Course::settled;
}

PostedBatch Reporter::send(const Sending& sending, std::span<const Record> records) {
  const SpanScope span(options_.spans, "reporter", "records");
  PostedBatch posted = post_records(*client_, records, sending.confirmed);
  next_post_ = SteadyClock::now() + options_.post_interval;
  requested_delay_ = milliseconds(0);
  const bool waits = posted.delivery == Delivery::again || posted.delivery == Delivery::barred;
  if (waits && posted.retry_after) {
    // Spread the ranks, but never retry earlier than requested.
    const double spread = std::uniform_real_distribution<double>(1.0, 1.5)(jitter_);
    const std::chrono::duration<double, std::milli> asked =
        std::min<milliseconds>(*posted.retry_after, max_requested_delay);
    requested_delay_ = std::chrono::duration_cast<milliseconds>(spread * asked);
  }
  if (waits || posted.delivery == Delivery::oversized) return posted;
  if (std::exchange(outage_, false))
    spdlog::info("{} responds again; sending the kept records", options_.server.address);
  retry_ = milliseconds(0);
  return posted;
}

void Reporter::go_back(Sending& sending, std::int64_t stored) {
  const std::int64_t first = sending.spool.seek(stored);
  sending.spool.save_acknowledged();  // before the writer removes the older part
  spdlog::warn("{} has lost records {} to {} of spool {}; sending them again{}", options_.server.address, stored + 1,
               sending.confirmed, sending.file.string(),
               first > stored + 1 ? fmt::format(" from {}: the spool no longer has those before it", first) : "");
  sending.confirmed = stored;
  check_older_ = true;
}

void Reporter::skip(const Record& record, const std::string& why) {
  ++skipped_;
  if (refusals_.size() == max_refusals_logged || !refusals_.insert(why).second) return;
  spdlog::error(
      "{} permanently refused record {} of rank {}, attempt {}; skipping it and others refused for this reason: {}",
      options_.server.address, record.header.sequence, record.header.rank, record.header.attempt, why);
}

void Reporter::report_outage(const std::string& why) {
  if (std::exchange(outage_, true)) return;
  spdlog::warn("{}: {}; training continues, records are kept and sent later", options_.server.address, why);
}

void Reporter::wait_for_turn() {
  std::unique_lock lock(mutex_);
  changed_.wait_until(lock, next_post_, [&] { return closing_ || stop_; });
}

void Reporter::wait_to_retry() {
  retry_ = std::clamp(2 * retry_, options_.first_retry, options_.max_backoff);
  const double spread = std::uniform_real_distribution<double>(0.5, 1.5)(jitter_);
  const milliseconds own_delay(static_cast<std::int64_t>(spread * static_cast<double>(retry_.count())));
  std::unique_lock lock(mutex_);
  const bool was_closing = closing_;
  changed_.wait_for(lock, std::max(own_delay, requested_delay_), [&] { return stop_ || closing_ != was_closing; });
  if (closing_ != was_closing) retry_ = milliseconds(0);  // restart the backoff for the last attempts
}

bool Reporter::stopped() const {
  const std::lock_guard lock(mutex_);
  return stop_;
}

bool Reporter::closing() const {
  const std::lock_guard lock(mutex_);
  return closing_;
}

}  // namespace babelring
