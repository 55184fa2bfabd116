#include "server/translate/job_queue.h"

#include <fmt/format.h>

#include <algorithm>
#include <boost/json/array.hpp>
#include <boost/json/object.hpp>
#include <utility>

namespace babelring::translate {
namespace {

constexpr double bytes_a_subword = 4;       // of European text; other scripts have more bytes a character
constexpr std::int64_t usual_beam = 5;      // BeamOptions::beam
constexpr std::int64_t usual_samples = 32;  // of --mbr-samples

/// Translations of a line that are searched or drawn at once.
std::int64_t hypotheses(const Job& job) {
  const auto number = [&](const char* name, std::int64_t usual) {
    const json::value* value = job.options.if_contains(name);
    return value != nullptr && value->is_int64() ? value->get_int64() : usual;
  };
  if (get_flag(job.options, "mbr")) return number("mbr_samples", usual_samples) + number("beam", 0);
  return get_flag(job.options, "sample") ? number("nbest", 1) : number("beam", usual_beam);
}

double line_cost(const Job& job, std::size_t line) {
  const auto bytes = static_cast<double>(job.lines[line].as_string().size());
  return (bytes / bytes_a_subword + 1) * static_cast<double>(hypotheses(job));  // 1: </s>
}

}  // namespace

void Job::add_answer(json::object next, std::size_t count) {
  answered += count;
  if (answer.empty()) {
    answer = std::move(next);
    return;
  }
  json::array& items = answer.at("items").as_array();
  for (json::value& item : next.at("items").as_array()) items.push_back(std::move(item));
  const json::value *before = answer.if_contains("ms"), *added = next.if_contains("ms");
  if (before == nullptr || added == nullptr || !before->is_number() || !added->is_number()) return;
  answer["ms"] = before->to_number<double>() + added->to_number<double>();
}

json::object Part::request(std::int64_t id) const {
  json::object request = job->options;
  json::array& text = request["text"].emplace_array();
  for (std::size_t i = 0; i < count; ++i) text.push_back(job->lines[first + i]);
  // A prefix for each line travels with it; the translator refuses another number of them.
  if (json::value* prefix = request.if_contains("prefix");
      prefix != nullptr && prefix->is_array() && prefix->get_array().size() == job->lines.size()) {
    json::array& all = prefix->get_array();
    const auto begin = static_cast<std::ptrdiff_t>(first), end = static_cast<std::ptrdiff_t>(first + count);
    request["prefix"] = json::array(all.begin() + begin, all.begin() + end);
  }
  request["id"] = id;
  if (first > 0) request["first"] = first;
  if (job->client.progress) request["stream"] = true;
  return request;
}

double JobQueue::cost(const Part& part) {
  double sum = 0;
  for (std::size_t i = 0; i < part.count; ++i) sum += line_cost(*part.job, part.first + i);
  return sum;
}

Status JobQueue::check_room(const std::string& owner, std::size_t bytes) const {
  if (jobs_.size() >= limits_.requests) return Error{fmt::format("{} requests are waiting already", limits_.requests)};
  std::size_t own = 0, waiting = 0;
  for (const auto& job : jobs_) {
    own += job->client.owner == owner ? 1 : 0;
    waiting += job->bytes;
  }
  if (!jobs_.empty() && waiting + bytes > limits_.bytes)
    return Error{fmt::format("requests of {} bytes are waiting already", waiting)};
  if (owner.empty() || own < limits_.requests_an_owner) return {};
  return Error{fmt::format("{} requests of this client are waiting already", limits_.requests_an_owner)};
}

void JobQueue::add(std::shared_ptr<Job> job) {
  jobs_.push_back(std::move(job));
}

void JobQueue::put_back(const Part& part) {
  part.job->alone = true;
  part.job->taken = part.first;
  const auto place = std::find(jobs_.begin(), jobs_.end(), part.job);
  if (place == jobs_.end()) {
    jobs_.push_front(part.job);
  } else {
    jobs_.splice(jobs_.begin(), jobs_, place);
  }
}

double JobQueue::begin_of(const Job& job) const {
  const auto charged = charged_.find(job.client.owner);
  return charged == charged_.end() ? clock_ : std::max(clock_, charged->second);
}

void JobQueue::charge(const Job& job, double cost) {
  clock_ = begin_of(job);
  charged_[job.client.owner] = clock_ + cost;
  std::erase_if(charged_, [&](const auto& entry) { return entry.second <= clock_; });  // as if it were not there
}

Batch JobQueue::take(const std::function<bool(const Job&)>& eligible, double budget) {
  Batch batch;
  double cost = 0;
  std::int64_t rows = 0;
  const auto joins = [&](const Job& job) {
    if (batch.empty()) return eligible(job);
    const Job& first = *batch.front().job;
    return job.checkpoint == first.checkpoint && (&job == &first || !(job.alone || first.alone));
  };
  for (std::int64_t lines = 0; lines < max_lines; ++lines) {
    auto next = jobs_.end();
    for (auto job = jobs_.begin(); job != jobs_.end(); ++job) {
      if (joins(**job) && (next == jobs_.end() || begin_of(**job) < begin_of(**next))) next = job;
    }
    if (next == jobs_.end()) break;
    const std::shared_ptr<Job> job = *next;
    const double added = line_cost(*job, job->taken);
    const bool fits = cost + added <= budget && rows + hypotheses(*job) <= max_hypotheses;
    if (!batch.empty() && !fits) break;
    cost += added;
    rows += hypotheses(*job);
    charge(*job, added);
    auto part = std::find_if(batch.begin(), batch.end(), [&](const Part& one) { return one.job == job; });
    if (part == batch.end()) part = batch.insert(batch.end(), Part{job, job->taken, 0});
    ++part->count;
    if (++job->taken == job->lines.size()) jobs_.erase(next);
  }
  return batch;
}

void JobQueue::remove(const Job& job) {
  jobs_.remove_if([&](const auto& one) { return one.get() == &job; });
}

std::vector<std::shared_ptr<Job>> JobQueue::take_dead(SteadyClock::time_point now) {
  std::vector<std::shared_ptr<Job>> dead;
  jobs_.remove_if([&](const auto& job) {
    const bool gone = job->deadline <= now || job->client.left();
    if (gone) dead.push_back(job);
    return gone;
  });
  return dead;
}

std::vector<std::shared_ptr<Job>> JobQueue::take_all() {
  std::vector<std::shared_ptr<Job>> all(jobs_.begin(), jobs_.end());
  jobs_.clear();
  return all;
}

}  // namespace babelring::translate
