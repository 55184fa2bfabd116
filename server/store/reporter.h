#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "server/store/control_rows.h"
#include "server/store/sqlite.h"

/// Which token may report for which run.
namespace babelring::store {

/// Who reports, and which runs its token is for.
struct Reporter {
  enum class Reach {
    every_run,  // an administrator's, or none is required
    one_run,    // a token bound to the run that it reports for; whoever compares the id has done so
    prefix,     // runs that begin by themselves and whose name begins with `prefix`
    begun,      // runs that it has begun itself
  };
  Reach reach = Reach::every_run;
  std::string token = {};   // its id; empty: without one
  std::string prefix = {};  // of names
};

/// Why a report is not taken, and nothing of it stored.
struct Refusal {
  enum class Kind {
    not_its_run,       // the token is not for this run
    too_many_runs,     // the token has begun too many
    attempt_refused,   // the attempt is none of the run's
    rank_refused,      // the rank is none of the run's
    sequence_refused,  // a sequence number far ahead of those that came
  };
  Kind kind = Kind::not_its_run;
  std::string detail;  // one line
};

inline constexpr std::int64_t max_external_ranks = 4096;          // of a run that the server did not start
inline constexpr std::int64_t max_attempt_jump = 1000;            // from the newest attempt of such a run
inline constexpr std::int64_t max_sequence_jump = 1'000'000'000;  // from the newest sequence number of a rank
inline constexpr std::int64_t max_new_runs_a_minute = 60,
                              max_begun_runs = 10'000;  // of a token that is not bound to a run

/// Why the reporter may not report for a run, or nothing.
std::optional<Refusal> refuse_reporter(const Reporter& reporter, const std::string& id, const ReportedRun& run);
/// Why the reporter may not give a run this name, or nothing.
std::optional<Refusal> refuse_name(const Reporter& reporter, const std::string& name);
/// Why a report of this attempt and rank is not taken, whoever sends it, or nothing. `run` is that attempt's.
std::optional<Refusal> refuse_place(const std::string& id, const ReportedRun& run, std::int64_t attempt,
                                    std::int64_t rank);
/// Why the reporter may not begin another run now, or nothing.
std::optional<Refusal> refuse_new_run(Database& database, const Reporter& reporter, std::int64_t now_ms);

}  // namespace babelring::store
