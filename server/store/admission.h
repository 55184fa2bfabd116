#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "base/records/records.h"
#include "server/store/attempts.h"
#include "server/store/control.h"
#include "server/store/sqlite.h"

/// Decides which sender may report for which run. All functions throw SqlFailure.
namespace babelring::store {

/// The sender of a report and the runs that its token covers.
struct ReportSender {
  enum class Reach {
    every_run,  // a token of scope admin or operate, or tokens are disabled
    one_run,    // a token bound to this run; the caller has already compared the ids
    prefix,     // external runs with a name that starts with `prefix`
    begun,      // runs first reported with this token
  };
  Reach reach = Reach::every_run;
  std::string token = {};   // token id; empty: no token
  std::string prefix = {};  // run name prefix
};

/// Reason why a report is refused. Nothing of a refused report is stored.
struct Refusal {
  enum class Kind {
    not_its_run,       // the token does not cover this run
    too_many_runs,     // the token has started too many runs
    attempt_refused,   // the run has no such attempt
    rank_refused,      // the run has no such rank
    sequence_refused,  // the sequence number is too far ahead
    records_missing,   // the database lacks records that were confirmed
  };
  Kind kind = Kind::not_its_run;
  std::string detail;       // one line
  std::int64_t stored = 0;  // of records_missing: the rank's newest stored sequence number; 0: none
};

/// The facts about a run that decide whether a report of one attempt is accepted.
struct ReportedRun {
  std::int64_t number = 0, attempt = 0;
  RunState state = RunState::running;
  std::int64_t created_ms = 0;
  std::string name;
  std::string begun_by;    // id of the token that first reported it; empty: unknown, or created by the server
  bool managed = false;    // started by the server, and no user has started a newer attempt
  std::int64_t ranks = 0;  // of the attempt in question; 0: unknown
};

/// The facts that decide the response to a heartbeat.
struct CommandRow : ReportedRun {
  bool fenced = false;  // the attempt in question must end
  StopMode stop_mode = StopMode::none;
  std::int64_t checkpoints_requested = 0;  // in the current attempt
  TraceRequestRow trace;                   // the newest request to the current attempt
};

/// The facts about the run of a report of this attempt, or nothing if the run is unknown.
std::optional<CommandRow> find_commands(Database& database, const std::string& run, std::int64_t attempt);

/// Records of one rank in one attempt of a run, in order of arrival. The header of each record matches the batch.
struct Batch {
  std::string run;
  std::int64_t attempt = 1, rank = 0;
  std::string host;
  std::vector<Record> records;
  std::int64_t confirmed = 0;  // newest sequence number that the sender knows to be stored; 0: none
  std::function<void(Database&)> in_transaction = nullptr;  // called in the same transaction, after the records
  std::int64_t unknown_members = 0;                         // JSON members ignored because the worker is newer
  ReportSender reporter = {};
};

inline constexpr std::int64_t max_external_ranks = 4096;          // of a run not started by the server
inline constexpr std::int64_t max_attempt_jump = 1000;            // beyond the newest attempt of such a run
inline constexpr std::int64_t max_sequence_jump = 1'000'000'000;  // beyond a rank's newest sequence number
inline constexpr std::int64_t max_new_runs_per_minute = 60,
                              max_begun_runs = 10'000;  // per token not bound to a run

/// Reason why the reporter may not report for a run, or nothing.
std::optional<Refusal> refuse_reporter(const ReportSender& reporter, const std::string& id, const ReportedRun& run);
/// Reason why the reporter may not give a run this name, or nothing.
std::optional<Refusal> refuse_name(const ReportSender& reporter, const std::string& name);
/// Reason to refuse a report of this attempt and rank from any sender, or nothing. `run` describes that attempt.
std::optional<Refusal> refuse_place(const std::string& id, const ReportedRun& run, std::int64_t attempt,
                                    std::int64_t rank);
/// Reason why the reporter may not start another run now, or nothing.
std::optional<Refusal> refuse_new_run(Database& database, const ReportSender& reporter, std::int64_t now_ms);
/// Reason why the batch is refused, or nothing. `known`: its run, if it exists.
std::optional<Refusal> refuse_batch(Database& database, const Batch& batch, const std::optional<CommandRow>& known,
                                    std::int64_t now_ms);

/// The run of an admitted batch.
struct Admitted {
  std::int64_t run = 0;      // its number
  bool current = false;      // the batch belongs to the run's newest attempt
  bool run_changed = false;  // the run was created, or its state or attempt changed
};
/// Creates the run if it is unknown. A newer attempt becomes the current one. Late records of an older attempt are
/// stored but do not change the run's state.
Admitted admit(Database& database, const Batch& batch, const std::optional<CommandRow>& known, std::int64_t now_ms);

}  // namespace babelring::store
