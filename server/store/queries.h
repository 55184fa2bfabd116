#pragma once

#include <optional>
#include <string_view>
#include <vector>

#include "server/store/readers.h"
#include "server/store/rows.h"

/// Reads of everything but series. All throw SqlFailure.
namespace babelring::store {

std::optional<RunRow> find_run(Reader& reader, std::string_view id);
std::vector<RunRow> list_runs(Reader& reader, const RunFilter& filter);
/// Number of runs in each state.
std::vector<std::pair<std::string, std::int64_t>> count_runs(Reader& reader);
/// Of an attempt, by rank: at most `limit` of those from rank `first`; -1: all.
std::vector<RankRow> list_ranks(Reader& reader, std::int64_t run, std::int64_t attempt, std::int64_t first = 0,
                                std::int64_t limit = -1);

/// Oldest first, those after number `after`, without samples.
std::vector<std::pair<std::int64_t, EvalRow>> list_evals(Reader& reader, std::int64_t run, std::int64_t after,
                                                         std::int64_t limit);
std::optional<EvalRow> find_eval(Reader& reader, std::string_view id);

std::vector<CheckpointRow> list_checkpoints(Reader& reader, std::int64_t run, const CheckpointFilter& filter);
/// Newest update first, those before (step, number); {0, 0} for all.
inline std::vector<CheckpointRow> list_checkpoints(Reader& reader, std::int64_t run, bool removed,
                                                   std::pair<std::int64_t, std::int64_t> before, std::int64_t limit) {
  return list_checkpoints(reader, run, CheckpointFilter{{}, {}, removed, false, before, limit});
}
std::optional<CheckpointRow> find_checkpoint(Reader& reader, std::string_view id);

}  // namespace babelring::store
