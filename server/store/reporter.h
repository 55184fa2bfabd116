#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "server/store/control_rows.h"
#include "server/store/sqlite.h"

/// Decides which token may report for which run.
namespace babelring::store {

/// The sender of a report and the runs that its token covers.
struct Reporter {
  enum class Reach {
    every_run,  // an administrator token, or tokens are disabled
    one_run,    // a token bound to this run; the caller has already compared the ids
    prefix,     // external runs with a name that starts with `prefix`
    begun,      // runs first reported with this token
  };
  Reach reach = Reach::every_run;
  std::string token = {};   // token id; empty: no token
  std::string prefix = {};  // run name prefix
};

/// Why a report is refused. Nothing of a refused report is stored.
struct Refusal {
  enum class Kind {
    not_its_run,       // the token does not cover this run
    too_many_runs,     // the token has started too many runs
    attempt_refused,   // the run has no such attempt
    rank_refused,      // the run has no such rank
    sequence_refused,  // the sequence number is too far ahead
  };
  Kind kind = Kind::not_its_run;
  std::string detail;  // one line
};

inline constexpr std::int64_t max_external_ranks = 4096;          // of a run not started by the server
inline constexpr std::int64_t max_attempt_jump = 1000;            // beyond the newest attempt of such a run
inline constexpr std::int64_t max_sequence_jump = 1'000'000'000;  // beyond a rank's newest sequence number
inline constexpr std::int64_t max_new_runs_a_minute = 60,
                              max_begun_runs = 10'000;  // per token not bound to a run

/// Reason why the reporter may not report for a run, or nothing.
std::optional<Refusal> refuse_reporter(const Reporter& reporter, const std::string& id, const ReportedRun& run);
/// Reason why the reporter may not give a run this name, or nothing.
std::optional<Refusal> refuse_name(const Reporter& reporter, const std::string& name);
/// Reason to refuse a report of this attempt and rank from any sender, or nothing. `run` describes that attempt.
std::optional<Refusal> refuse_place(const std::string& id, const ReportedRun& run, std::int64_t attempt,
                                    std::int64_t rank);
/// Reason why the reporter may not start another run now, or nothing.
std::optional<Refusal> refuse_new_run(Database& database, const Reporter& reporter, std::int64_t now_ms);

}  // namespace babelring::store
