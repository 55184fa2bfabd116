#include "server/translate/pool.h"

#include <fmt/format.h>
#include <spdlog/spdlog.h>

#include <algorithm>
#include <boost/json/object.hpp>
#include <csignal>
#include <exception>
#include <utility>

#include "base/json.h"

namespace babelring::translate {
namespace {

constexpr int exit_failure = 1;  // of nmt; the reason is on standard error
constexpr const char* abandoned_detail = "the client disconnected";
constexpr auto abandoned_poll = std::chrono::milliseconds(100);  // interval of checks for a disconnected client
constexpr std::size_t max_owners = 1000;                         // max remembered owners

}  // namespace

Pool::Pool(PoolOptions options) : options_(std::move(options)) {
  if (options_.program.empty()) return;
  for (std::size_t i = 0; i < options_.max_helpers; ++i) slots_.push_back(std::make_unique<Slot>());
  for (const auto& slot : slots_) slot->thread = std::thread([this, &slot = *slot] { serve(slot); });
}

Pool::~Pool() {
  std::list<Job> waiting;
  {
    const std::lock_guard lock(mutex_);
    ending_ = true;
    waiting.swap(queue_);
    for (const auto& slot : slots_) {
      if (slot->busy && slot->pid > 0) kill(slot->pid, SIGKILL);  // its thread reaps it
    }
    changed_.notify_all();
  }
  for (Job& job : waiting) job.done({.status = JobOutcome::Status::busy, .detail = "the server is shutting down"});
  for (const auto& slot : slots_) slot->thread.join();
}

Status Pool::check_room(const std::string& owner) const {
  if (queue_.size() >= options_.queue) return Error{fmt::format("{} requests are waiting already", options_.queue)};
  const auto own =
      std::count_if(queue_.begin(), queue_.end(), [&](const Job& job) { return job.client.owner == owner; });
  if (owner.empty() || static_cast<std::size_t>(own) < options_.queue_an_owner) return {};
  return Error{fmt::format("{} requests of this client are waiting already", options_.queue_an_owner)};
}

std::list<Pool::Job> Pool::take_abandoned() {
  std::list<Job> left;
  for (auto job = queue_.begin(); job != queue_.end();) {
    const auto next = std::next(job);
    if (job->client.left()) left.splice(left.end(), queue_, job);
    job = next;
  }
  return left;
}

void Pool::translate(std::string checkpoint, std::filesystem::path folder, json::object request, Done done,
                     Client client) {
  if (options_.program.empty()) {
    done({.status = JobOutcome::Status::unavailable,
          .detail = "no `nmt` program found in the server program's folder; set --nmt"});
    return;
  }
  std::list<Job> left;
  const Status queued = [&]() -> Status {
    const std::lock_guard lock(mutex_);
    if (!check_room(client.owner)) left = take_abandoned();
    if (ending_) return Error{"the server is shutting down"};
    if (Status room = check_room(client.owner); !room) return room;
    queue_.push_back({std::move(checkpoint), std::move(folder), std::move(request), done,
                      SteadyClock::now() + options_.deadline, std::move(client)});
    changed_.notify_all();
    return {};
  }();
  for (Job& job : left) job.done({.status = JobOutcome::Status::busy, .detail = abandoned_detail});
  if (!queued) done({.status = JobOutcome::Status::busy, .detail = queued.error()});
}

Pool::Load Pool::load() const {
  const std::lock_guard lock(mutex_);
  const auto running = std::count_if(slots_.begin(), slots_.end(), [](const auto& slot) { return slot->busy; });
  return {queue_.size(), static_cast<std::size_t>(running)};
}

std::vector<Pool::Loaded> Pool::loaded() const {
  const std::lock_guard lock(mutex_);
  std::vector<Loaded> all;
  for (const auto& slot : slots_) {
    if (slot->pid > 0) all.push_back({slot->checkpoint, slot->pid, slot->busy});
  }
  return all;
}

/// A new checkpoint goes to an empty slot, otherwise to the least recently used idle slot.
bool Pool::is_next_to_load(const Slot& slot) const {
  return std::none_of(slots_.begin(), slots_.end(), [&](const auto& other) {
    if (other.get() == &slot || other->busy) return false;
    if (other->checkpoint.empty() != slot.checkpoint.empty()) return other->checkpoint.empty();
    return other->last_used < slot.last_used;
  });
}

std::optional<Pool::Job> Pool::take_job(Slot& slot) {
  auto next = queue_.end();
  const auto turn_of = [&](const Job& job) {
    const auto turn = served_.find(job.client.owner);
    return turn == served_.end() ? 0 : turn->second;
  };
  for (auto job = queue_.begin(); job != queue_.end(); ++job) {
    const auto holder = std::find_if(slots_.begin(), slots_.end(),
                                     [&](const auto& other) { return other->checkpoint == job->checkpoint; });
    const bool ours = holder == slots_.end() ? is_next_to_load(slot) : holder->get() == &slot;
    if (ours && (next == queue_.end() || turn_of(*job) < turn_of(*next))) next = job;
  }
  if (next == queue_.end()) return std::nullopt;
  if (served_.size() >= max_owners) served_.clear();
  served_[next->client.owner] = ++turn_;
  Job taken = std::move(*next);
  queue_.erase(next);
  return taken;
}

void Pool::serve(Slot& slot) {
  std::unique_lock lock(mutex_);
  while (!ending_) {
    std::optional<Job> job = take_job(slot);
    if (!job) {
      const bool idle_for_long = slot.process && SteadyClock::now() - slot.last_used >= options_.idle;
      if (idle_for_long) {
        drop_process(slot);
        slot.checkpoint.clear();
      } else if (slot.process) {
        changed_.wait_until(lock, slot.last_used + options_.idle);
      } else {
        changed_.wait(lock);
      }
      continue;
    }
    if (job->client.left()) {
      lock.unlock();
      job->done({.status = JobOutcome::Status::busy, .detail = abandoned_detail});
      lock.lock();
      continue;
    }
    if (slot.checkpoint != job->checkpoint) drop_process(slot);
    slot.checkpoint = job->checkpoint;
    slot.busy = true;
    lock.unlock();
    JobOutcome outcome;
    try {
      outcome = answer(slot, *job);
    } catch (const std::exception& failure) {
      outcome = {.status = JobOutcome::Status::unavailable,
                 .detail = failure.what()};  // the process could not be started
    }
    const bool ours = outcome.status != JobOutcome::Status::done && outcome.status != JobOutcome::Status::refused &&
                      !job->client.left();
    if (ours) {
      spdlog::warn("translating with {}: {}", job->checkpoint, outcome.detail);
    }
    lock.lock();
    slot.last_used = SteadyClock::now();  // before the response, so that later requests have later times
    slot.busy = false;
    if (!slot.process) slot.checkpoint.clear();
    changed_.notify_all();
    lock.unlock();
    job->done(std::move(outcome));
    lock.lock();
  }
  drop_process(slot);
}

/// Requires mutex_.
void Pool::drop_process(Slot& slot) {
  slot.pid = 0;
  slot.process.reset();
}

JobOutcome Pool::answer(Slot& slot, const Job& job) {
  if (SteadyClock::now() >= job.deadline) {
    return {.status = JobOutcome::Status::busy, .detail = "the request exceeded its deadline in the queue"};
  }
  {
    const std::lock_guard lock(mutex_);
    if (slot.process && !slot.process->running()) drop_process(slot);
  }
  if (!slot.process) {
    if (JobOutcome loading = load(slot, job); loading.status != JobOutcome::Status::done) return loading;
  }
  json::object request = job.request;
  request["id"] = ++slot.last_id;
  if (const auto status = slot.process->send(to_text(request), job.deadline); status != NmtProcess::LineStatus::ok) {
    return failed(slot, status, "taking the request");
  }
  const NmtProcess::Line line = receive(slot, job);
  if (line.result != NmtProcess::LineStatus::ok) return failed(slot, line.result, "translating");
  auto answer = parse_json(line.text);
  const json::value* id = answer.ok() && answer->is_object() ? answer->get_object().if_contains("id") : nullptr;
  if (id == nullptr || *id != request["id"]) return confused(slot);
  json::object object = std::move(answer->get_object());
  object.erase("id");
  const json::value* error = object.if_contains("error");
  if (error == nullptr || !error->is_object()) return {.status = JobOutcome::Status::done, .answer = std::move(object)};
  return {.status = JobOutcome::Status::refused,
          .code = get_text(error->get_object(), "code"),
          .detail = get_text(error->get_object(), "detail")};
}

JobOutcome Pool::load(Slot& slot, const Job& job) {
  auto process = std::make_unique<NmtProcess>(
      options_.program,
      std::vector<std::string>{"translate", "--serve", "--end-with-parent", "--memory-mb",
                               std::to_string(options_.memory_mb), "--threads", std::to_string(options_.threads),
                               "--checkpoint", job.folder.string()});
  {
    const std::lock_guard lock(mutex_);
    slot.process = std::move(process);
    slot.pid = slot.process->pid();
    if (ending_) kill(slot.pid, SIGKILL);  // started after the destructor killed the others
  }
  const NmtProcess::Line line = receive(slot, job);
  if (line.result != NmtProcess::LineStatus::ok) return failed(slot, line.result, "loading the checkpoint");
  spdlog::info("process {} translates with {}", slot.pid, job.checkpoint);
  return {};
}

NmtProcess::Line Pool::receive(Slot& slot, const Job& job) {
  for (;;) {
    NmtProcess::Line line = slot.process->receive(std::min(job.deadline, SteadyClock::now() + abandoned_poll));
    if (line.result != NmtProcess::LineStatus::late || SteadyClock::now() >= job.deadline) return line;
    if (!job.client.left()) continue;
    const std::lock_guard lock(mutex_);
    if (!queue_.empty()) return {NmtProcess::LineStatus::abandoned, {}};
  }
}

JobOutcome Pool::confused(Slot& slot) {
  const std::lock_guard lock(mutex_);
  drop_process(slot);
  return {.status = JobOutcome::Status::crashed, .detail = "the translator sent an unexpected response and was killed"};
}

JobOutcome Pool::failed(Slot& slot, NmtProcess::LineStatus status, const std::string& doing) {
  const bool loading = doing.starts_with("loading");
  {
    const std::lock_guard lock(mutex_);
    slot.pid = 0;  // the process may be reaped from here on, so no other thread may signal it
  }
  if (status == NmtProcess::LineStatus::ended) {
    // It has closed its output and is about to exit. Wait for its own exit code before killing it.
    const auto patience = SteadyClock::now() + std::chrono::seconds(5);
    while (slot.process->running() && SteadyClock::now() < patience) {
      std::this_thread::sleep_for(std::chrono::milliseconds(2));
    }
  }
  const int code = slot.process->end();
  const std::string words = slot.process->last_error_line();
  {
    const std::lock_guard lock(mutex_);
    drop_process(slot);
    if (ending_) return {.status = JobOutcome::Status::busy, .detail = "the server is shutting down"};
  }
  if (status == NmtProcess::LineStatus::abandoned)
    return {.status = JobOutcome::Status::busy, .detail = abandoned_detail};
  if (status == NmtProcess::LineStatus::late) {
    return {.status = JobOutcome::Status::late,
            .detail = fmt::format("the translator was still {} after {} s and was killed", doing,
                                  options_.deadline.count() / 1000.0)};
  }
  if (loading && code == exit_failure) return {.status = JobOutcome::Status::damaged, .detail = words};
  const std::string how = code > 128 ? fmt::format("signal {}", code - 128) : fmt::format("exit code {}", code);
  return {
      .status = JobOutcome::Status::crashed,
      .detail = fmt::format("the translator ended ({}) while {}{}{}", how, doing, words.empty() ? "" : ": ", words)};
}

}  // namespace babelring::translate
