#pragma once

#include <optional>
#include <string_view>
#include <vector>

#include "server/store/readers.h"
#include "server/store/rows.h"

/// Queries of runs, ranks, evals and checkpoints. All functions throw SqlFailure.
namespace babelring::store {

std::optional<RunRow> find_run(Reader& reader, std::string_view id);
std::vector<RunRow> list_runs(Reader& reader, const RunFilter& filter);
/// Number of runs in each state.
std::vector<std::pair<RunState, std::int64_t>> count_runs(Reader& reader);
/// Ranks of an attempt in ascending order, starting with rank `first`; at most `limit` (-1: all).
std::vector<RankRow> list_ranks(Reader& reader, std::int64_t run, std::int64_t attempt, std::int64_t first = 0,
                                std::int64_t limit = -1);

/// Up to `limit` evals with a number above `after`, oldest first, without samples. The first of each pair is the
/// number.
std::vector<std::pair<std::int64_t, EvalRow>> list_evals(Reader& reader, std::int64_t run, std::int64_t after,
                                                         std::int64_t limit);
std::optional<EvalRow> find_eval(Reader& reader, std::string_view id);

/// The newest and the best evaluation of a run on its validation set.
struct RunEvals {
  std::optional<EvalRow> newest, best;
};
RunEvals find_run_evals(Reader& reader, std::int64_t run, const std::string& id);

std::vector<CheckpointRow> list_checkpoints(Reader& reader, std::int64_t run, const CheckpointFilter& filter);
/// Checkpoints before (step, number), newest update first. {0, 0}: all.
inline std::vector<CheckpointRow> list_checkpoints(Reader& reader, std::int64_t run, bool removed,
                                                   std::pair<std::int64_t, std::int64_t> before, std::int64_t limit) {
  return list_checkpoints(reader, run, CheckpointFilter{{}, {}, removed, false, before, limit});
}
std::optional<CheckpointRow> find_checkpoint(Reader& reader, std::string_view id);

}  // namespace babelring::store
