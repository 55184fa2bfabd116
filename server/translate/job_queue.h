#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <functional>
#include <list>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "base/clock.h"
#include "base/json.h"
#include "base/result.h"

namespace babelring::translate {

struct JobOutcome {
  enum class Status {
    done,
    refused,      // invalid request; code and detail come from the translator
    unavailable,  // no translation program
    busy,         // the queue is full, or the request waited too long
    late,         // the translator exceeded the deadline
    damaged,      // the checkpoint cannot be loaded
    crashed,      // the translator ended without a response
  };
  Status status = Status::done;
  json::object answer = {};  // if done; see docs/formats.md
  std::string code = {};     // if refused: bad_request, too_long
  std::string detail = {};   // one line, unless done
};

/// The client of a translation request.
struct Client {
  std::string owner = {};                // identifies the client for limits and fairness; empty: not counted
  std::function<bool()> abandoned = {};  // true once the client has disconnected; may be empty
  /// Receives what is known before the outcome: the partial lines of docs/formats.md without `id`. Called from any
  /// thread, one call at a time, perhaps once more during or after the call of Job::done. Empty: not wanted.
  std::function<void(json::object)> progress = {};
  bool left() const { return abandoned && abandoned(); }
};

/// The folder of a checkpoint, or those of an ensemble.
struct Models {
  std::vector<std::filesystem::path> folders;
  std::vector<std::string> options;  // --weights and --combine of `nmt translate`

  /// As arguments of `nmt translate`.
  std::vector<std::string> arguments() const {
    std::vector<std::string> words = options;
    for (const auto& folder : folders) words.insert(words.end(), {"--checkpoint", folder.string()});
    return words;
  }
};

/// A request to translate lines with a checkpoint, waiting or in work. Its lines may be translated in several batches.
struct Job {
  std::string checkpoint;  // or a name of the ensemble
  Models models;
  json::object options;   // members of the request line that neither name the request nor hold its text
  json::array lines;      // strings, at least one
  std::size_t bytes = 0;  // of the lines
  std::function<void(JobOutcome)> done;
  SteadyClock::time_point deadline;
  Client client;

  std::size_t taken = 0;     // lines that were given to a translator
  std::size_t answered = 0;  // lines that have come back
  json::object answer = {};  // to these lines
  bool alone = false;        // shares no batch, because one that it shared was lost
  bool ended = false;        // its outcome is known

  /// Adds the answer to the next `count` lines, an object with as many `items`, to that to the lines before.
  void add_answer(json::object next, std::size_t count);
};

/// Consecutive lines of a job, which are translated together.
struct Part {
  std::shared_ptr<Job> job;
  std::size_t first = 0, count = 0;

  /// The request line for a translator.
  json::object request(std::int64_t id) const;
};
using Batch = std::vector<Part>;

/// The requests that wait for a translator. Owners are served in turn, line by line: the next line is that of the owner
/// with the lowest accumulated cost, and costs incurred while no other owner waited are not charged. So a request of
/// many lines delays the others by one batch at most. Not thread-safe.
class JobQueue {
 public:
  struct Limits {
    std::size_t requests = 256, requests_an_owner = 64;  // max waiting
    std::size_t bytes = std::size_t{16} << 20;           // max of all waiting lines, as 28 of the largest requests have
  };
  explicit JobQueue(Limits limits) : limits_(limits) {}

  /// The cost of a full batch: 2,048 subwords, TranslateOptions::batch_tokens, with five hypotheses each.
  static constexpr double full_batch = 2048 * 5;
  /// Max lines of a batch: TranslateOptions::batch_sentences.
  static constexpr std::int64_t max_lines = 64;
  /// Max hypotheses of a batch. From 100 rows on, products on a CPU run at full speed; more only delay the first
  /// answer. Source: docs/measurements/2026-11-22-beam-search.md.
  static constexpr std::int64_t max_hypotheses = 128;
  /// The estimated cost of translating these lines, in subwords times hypotheses.
  static double cost(const Part& part);

  /// Checks that this owner may add a job of `bytes`.
  Status check_room(const std::string& owner, std::size_t bytes) const;
  void add(std::shared_ptr<Job> job);
  /// Puts the lines of a lost batch back, before all others. The job shares no batch from now on.
  void put_back(const Part& part);
  /// Takes lines of jobs with one checkpoint, within the limits above and of at most `budget` in cost, but at least
  /// one. `eligible` chooses the checkpoint. Empty if no job is eligible.
  Batch take(const std::function<bool(const Job&)>& eligible, double budget);
  /// Removes a job, if it waits.
  void remove(const Job& job);
  /// Removes and returns the jobs whose clients have left, and those whose deadline has passed.
  std::vector<std::shared_ptr<Job>> take_dead(SteadyClock::time_point now);
  std::vector<std::shared_ptr<Job>> take_all();

  std::size_t size() const { return jobs_.size(); }
  bool empty() const { return jobs_.empty(); }

 private:
  using Jobs = std::list<std::shared_ptr<Job>>;
  double begin_of(const Job& job) const;
  void charge(const Job& job, double cost);

  const Limits limits_;
  Jobs jobs_;                              // oldest first
  std::map<std::string, double> charged_;  // by owner: accumulated cost, above clock_
  double clock_ = 0;                       // accumulated cost of the owner served last, before its line
};

}  // namespace babelring::translate
