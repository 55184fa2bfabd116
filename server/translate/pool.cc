#include "server/translate/pool.h"

#include <fmt/format.h>
#include <spdlog/spdlog.h>

#include <algorithm>
#include <boost/json/array.hpp>
#include <boost/json/object.hpp>
#include <csignal>
#include <exception>
#include <ranges>
#include <utility>

#include "base/json.h"

namespace babelring::translate {
namespace {

constexpr int exit_failure = 1;  // of nmt; the reason is on standard error
constexpr const char* abandoned_detail = "the client disconnected";
constexpr const char* ending_detail = "the server is shutting down";
constexpr auto check_interval = std::chrono::milliseconds(100);  // of deadlines and disconnected clients

std::string late_detail(const std::string& doing, std::chrono::milliseconds deadline) {
  return fmt::format("the translator was still {} after {} s", doing, std::chrono::duration<double>(deadline).count());
}

}  // namespace

/// A batch that a slot's process translates.
struct Pool::Running {
  struct OpenPart : Part {
    std::int64_t id = 0;
    bool answered = false;
  };
  explicit Running(const Batch& batch) {
    for (const Part& part : batch) {
      parts.push_back({part});
      deadline = std::max(deadline, part.job->deadline);
      cost += JobQueue::cost(part);
    }
  }
  bool open() const {
    return std::any_of(parts.begin(), parts.end(), [](const OpenPart& part) { return !part.answered; });
  }
  void begin(const char* what) {
    doing = what;
    began = SteadyClock::now();
  }

  std::vector<OpenPart> parts;
  SteadyClock::time_point deadline;  // of the last job
  double cost = 0;
  const char* doing = "loading the checkpoint";
  SteadyClock::time_point began = SteadyClock::now(), checked = began;
  bool sent = false;  // the process knows of the requests
};

Pool::Pool(PoolOptions options) : options_(std::move(options)), queue_(options_.queue) {
  if (options_.program.empty()) return;
  for (std::size_t i = 0; i < options_.max_helpers; ++i) slots_.push_back(std::make_unique<Slot>());
  for (const auto& slot : slots_) slot->thread = std::thread([this, &slot = *slot] { serve(slot); });
}

Pool::~Pool() {
  std::vector<std::shared_ptr<Job>> waiting;
  {
    const std::lock_guard lock(mutex_);
    ending_ = true;
    waiting = queue_.take_all();
    for (const auto& slot : slots_) {
      if (slot->running > 0 && slot->pid > 0) kill(slot->pid, SIGKILL);  // its thread reaps it
    }
    changed_.notify_all();
  }
  for (const auto& job : waiting) end({job, {.status = JobOutcome::Status::busy, .detail = ending_detail}});
  for (const auto& slot : slots_) slot->thread.join();
}

void Pool::translate(std::string checkpoint, Models models, json::object request, Done done, Client client) {
  if (options_.program.empty()) {
    done({.status = JobOutcome::Status::unavailable,
          .detail = "no `nmt` program found in the server program's folder; set --nmt"});
    return;
  }
  const auto job = std::make_shared<Job>();
  job->checkpoint = std::move(checkpoint);
  job->models = std::move(models);
  job->lines = std::move(request.at("text").as_array());
  for (const json::value& line : job->lines) job->bytes += line.as_string().size();
  request.erase("text");
  job->options = std::move(request);
  job->done = std::move(done);
  job->client = std::move(client);
  job->deadline = SteadyClock::now() + options_.deadline;
  const auto queued = [&]() -> Status {
    const std::lock_guard lock(mutex_);
    if (ending_) return Error{ending_detail};
    if (Status room = queue_.check_room(job->client.owner, job->bytes); !room) return room;
    queue_.add(job);
    changed_.notify_all();
    return {};
  };
  Status result = queued();
  if (!result) {
    end_dead();
    result = queued();
  }
  if (!result) end({job, {.status = JobOutcome::Status::busy, .detail = result.error()}});
}

Pool::Load Pool::load() const {
  const std::lock_guard lock(mutex_);
  Load load{.waiting = queue_.size()};
  for (const auto& slot : slots_) load.running += slot->running;
  return load;
}

std::vector<Pool::Loaded> Pool::loaded() const {
  const std::lock_guard lock(mutex_);
  std::vector<Loaded> all;
  for (const auto& slot : slots_) {
    if (slot->pid > 0) all.push_back({slot->checkpoint, slot->pid, slot->running > 0});
  }
  return all;
}

void Pool::end(Ending ending) {
  {
    const std::lock_guard lock(mutex_);
    if (ending.job->ended) return;
    ending.job->ended = true;
    queue_.remove(*ending.job);
  }
  ending.job->done(std::move(ending.outcome));
}

void Pool::end_dead() {
  std::vector<std::shared_ptr<Job>> dead;
  {
    const std::lock_guard lock(mutex_);
    dead = queue_.take_dead(SteadyClock::now());
  }
  for (const auto& job : dead) {
    JobOutcome outcome{.status = JobOutcome::Status::busy, .detail = abandoned_detail};
    if (!job->client.left()) outcome.detail = "the request exceeded its deadline in the queue";
    end({job, std::move(outcome)});
  }
}

/// A new checkpoint goes to an empty slot, otherwise to the least recently used idle slot.
bool Pool::is_next_to_load(const Slot& slot) const {
  return std::none_of(slots_.begin(), slots_.end(), [&](const auto& other) {
    if (other.get() == &slot || other->running > 0) return false;
    if (other->checkpoint.empty() != slot.checkpoint.empty()) return other->checkpoint.empty();
    return other->last_used < slot.last_used;
  });
}

Batch Pool::take_batch(Slot& slot) {
  const auto is_ours = [&](const Job& job) {
    const auto holder = std::find_if(slots_.begin(), slots_.end(),
                                     [&](const auto& other) { return other->checkpoint == job.checkpoint; });
    return holder == slots_.end() ? is_next_to_load(slot) : holder->get() == &slot;
  };
  return queue_.take(is_ours, slot.budget);
}

void Pool::serve(Slot& slot) {
  std::unique_lock lock(mutex_);
  while (!ending_) {
    lock.unlock();
    end_dead();
    lock.lock();
    const Batch batch = take_batch(slot);
    if (batch.empty()) {
      wait_for_work(slot, lock);
      continue;
    }
    if (slot.checkpoint != batch.front().job->checkpoint) drop_process(slot);
    slot.checkpoint = batch.front().job->checkpoint;
    slot.running = batch.size();
    lock.unlock();
    Running running(batch);
    Endings last = translate_batch(slot, running);
    lock.lock();
    slot.last_used = SteadyClock::now();  // before the last response, so that later requests have later times
    slot.running = 0;
    if (!slot.process) slot.checkpoint.clear();
    changed_.notify_all();
    lock.unlock();
    for (Ending& ending : last) end(std::move(ending));
    lock.lock();
  }
  drop_process(slot);
}

void Pool::wait_for_work(Slot& slot, std::unique_lock<std::mutex>& lock) {
  if (ending_) return;
  if (!slot.process) {
    changed_.wait(lock);
  } else if (SteadyClock::now() - slot.last_used < options_.idle) {
    changed_.wait_until(lock, slot.last_used + options_.idle);
  } else {
    drop_process(slot);
    slot.checkpoint.clear();
  }
}

void Pool::drop_process(Slot& slot) {
  slot.pid = 0;
  slot.process.reset();
}

Pool::Endings Pool::translate_batch(Slot& slot, Running& running) {
  using Result = NmtProcess::LineStatus;
  try {
    {
      const std::lock_guard lock(mutex_);
      if (slot.process && !slot.process->running()) drop_process(slot);
    }
    const auto failed = [&](Result result) {
      const JobOutcome outcome = kill_process(slot, result, running.doing);
      const std::lock_guard lock(mutex_);
      return fail_batch(running, outcome);
    };
    if (!slot.process) {
      if (const Result result = load_process(slot, running); result != Result::ok) return failed(result);
    }
    if (const Result result = send(slot, running); result != Result::ok) return failed(result);
    Endings last;
    running.begin("translating");
    while (running.open()) {
      const NmtProcess::Line line = receive(slot, running);
      if (line.result != Result::ok) return failed(line.result);
      if (take_line(line.text, running, last)) continue;
      const std::lock_guard lock(mutex_);
      drop_process(slot);
      return fail_batch(running, {.status = JobOutcome::Status::crashed,
                                  .detail = "the translator sent an unexpected response and was killed"});
    }
    const double batches = std::chrono::duration<double>(options_.batch) / (SteadyClock::now() - running.began);
    slot.budget = std::clamp(running.cost * batches, 1.0, JobQueue::full_batch);
    return last;
  } catch (const std::exception& failure) {  // the process could not be started
    const std::lock_guard lock(mutex_);
    drop_process(slot);
    return fail_batch(running, {.status = JobOutcome::Status::unavailable, .detail = failure.what()});
  }
}

NmtProcess::LineStatus Pool::load_process(Slot& slot, Running& running) {
  const Job& job = *running.parts.front().job;
  std::vector<std::string> words = job.models.arguments();
  words.insert(words.begin(),
               {"translate", "--serve", "--end-with-parent", "--memory-mb", std::to_string(options_.memory_mb),
                "--threads", std::to_string(options_.threads), "--precision", options_.precision});
  auto process = std::make_unique<NmtProcess>(options_.program, std::move(words));
  {
    const std::lock_guard lock(mutex_);
    slot.process = std::move(process);
    slot.pid = slot.process->pid();
    if (ending_) kill(slot.pid, SIGKILL);  // started after the destructor killed the others
  }
  slot.load_time = {};
  slot.budget = JobQueue::full_batch;
  const NmtProcess::LineStatus result = receive(slot, running).result;
  if (result != NmtProcess::LineStatus::ok) return result;
  slot.load_time = SteadyClock::now() - running.began;
  spdlog::info("process {} translates with {}", slot.pid, job.checkpoint);
  return result;
}

NmtProcess::LineStatus Pool::send(Slot& slot, Running& running) {
  running.begin("taking the request");
  running.sent = true;
  json::array requests;
  for (Running::OpenPart& part : running.parts) {
    part.id = ++slot.last_id;
    requests.push_back(part.request(part.id));
  }
  return slot.process->send(to_text(requests), running.deadline);
}

NmtProcess::Line Pool::receive(Slot& slot, Running& running) {
  for (;;) {
    const auto now = SteadyClock::now();
    if (now >= running.deadline) return {NmtProcess::LineStatus::late, {}};
    if (now >= running.checked + check_interval) {
      running.checked = now;
      if (!is_wanted(running) && now - running.began > slot.load_time) {
        const std::lock_guard lock(mutex_);
        if (!queue_.empty()) return {NmtProcess::LineStatus::abandoned, {}};
      }
    }
    NmtProcess::Line line = slot.process->receive(std::min(running.deadline, running.checked + check_interval));
    if (line.result != NmtProcess::LineStatus::late) return line;
  }
}

bool Pool::is_wanted(const Running& running) {
  end_dead();
  bool wanted = false;
  for (const Running::OpenPart& part : running.parts) {
    if (part.answered) continue;
    if (SteadyClock::now() >= part.job->deadline) {
      const std::string detail = late_detail(running.doing, options_.deadline);
      end({part.job, {.status = JobOutcome::Status::late, .detail = detail}});
    } else {
      wanted |= !part.job->client.left();
    }
  }
  return wanted;
}

bool Pool::take_line(const std::string& text, Running& running, Endings& last) {
  auto parsed = parse_json(text);
  if (!parsed.ok() || !parsed->is_object()) return false;
  json::object& answer = parsed->get_object();
  const json::value* id = answer.if_contains("id");
  const auto part = std::find_if(running.parts.begin(), running.parts.end(), [&](const Running::OpenPart& one) {
    return id != nullptr && id->is_int64() && id->get_int64() == one.id && !one.answered;
  });
  if (part == running.parts.end()) return false;
  answer.erase("id");
  Job& job = *part->job;
  if (answer.contains("line")) {
    if (job.client.progress) job.client.progress(std::move(answer));
    return true;
  }
  Ending ending{part->job, {}};
  const json::value *error = answer.if_contains("error"), *items = answer.if_contains("items");
  if (error != nullptr && error->is_object()) {
    ending.outcome = {.status = JobOutcome::Status::refused,
                      .code = get_text(error->get_object(), "code"),
                      .detail = get_text(error->get_object(), "detail")};
  } else {
    if (items == nullptr || !items->is_array() || items->get_array().size() != part->count) return false;
    job.add_answer(std::move(answer), part->count);
    if (job.answered == job.lines.size()) ending.outcome.answer = std::move(job.answer);
  }
  part->answered = true;
  if (ending.outcome.status == JobOutcome::Status::done && job.answered < job.lines.size()) return true;
  if (running.open()) {
    end(std::move(ending));
  } else {
    last.push_back(std::move(ending));
  }
  return true;
}

Pool::Endings Pool::fail_batch(const Running& running, const JobOutcome& outcome) {
  Endings endings;
  bool heard = false;
  const bool again = outcome.status == JobOutcome::Status::crashed && running.sent && running.parts.size() > 1;
  for (const Running::OpenPart& part : std::ranges::reverse_view(running.parts)) {
    if (part.answered || part.job->ended) continue;
    heard |= !part.job->client.left();
    if (again && !ending_) queue_.put_back(part);
    if (!again || ending_) endings.push_back({part.job, outcome});
  }
  if (heard) spdlog::warn("translating with {}: {}", running.parts.front().job->checkpoint, outcome.detail);
  return endings;
}

JobOutcome Pool::kill_process(Slot& slot, NmtProcess::LineStatus status, const std::string& doing) {
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
    if (ending_) return {.status = JobOutcome::Status::busy, .detail = ending_detail};
  }
  if (status == NmtProcess::LineStatus::abandoned)
    return {.status = JobOutcome::Status::busy, .detail = abandoned_detail};
  if (status == NmtProcess::LineStatus::late)
    return {.status = JobOutcome::Status::late, .detail = late_detail(doing, options_.deadline) + " and was killed"};
  if (doing.starts_with("loading") && code == exit_failure)
    return {.status = JobOutcome::Status::damaged, .detail = words};
  const std::string how = code > 128 ? fmt::format("signal {}", code - 128) : fmt::format("exit code {}", code);
  return {
      .status = JobOutcome::Status::crashed,
      .detail = fmt::format("the translator ended ({}) while {}{}{}", how, doing, words.empty() ? "" : ": ", words)};
}

}  // namespace babelring::translate
