#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/records/records.h"
#include "server/store/readers.h"

/// Evaluations, and the pauses of training caused by evaluations and checkpoints. All functions throw SqlFailure.
namespace babelring::store {

struct EvalRow {
  std::string id, run;
  std::int64_t step = 0, time_ms = 0, sample_count = 0;
  std::string body;     // JSON object of the EvalRecord without its samples
  std::string samples;  // JSON array; set only by find_eval()
};

/// Stores a validation of run number `run` and returns its id. `record` must hold an EvalRecord. With `may_be_best`
/// false, the validation is never marked as the best, regardless of the record. The resamples of a best validation
/// replace those of the one before. Call this inside the writer's transaction. Throws SqlFailure.
std::string insert_eval(Database& database, std::int64_t run, const Record& record, bool may_be_best = true);

/// Keeps the resamples of an evaluation as those of the run's best, which it is. Call this inside the writer's
/// transaction. Throws SqlFailure.
void replace_resamples(Database& database, std::int64_t run, const EvalRecord& eval);

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

/// The resamples of a run's best validation by one metric.
struct BestResamples {
  std::int64_t step = 0;  // of the validation
  Resamples resamples;
};
/// In the order of the worker's record; empty if the best validation has none.
std::vector<BestResamples> best_resamples(Reader& reader, std::int64_t run);

/// A training pause: an evaluation or a checkpoint.
struct PauseRow {
  bool checkpoint = false;
  std::int64_t step = 0;
  double seconds = 0;
};

/// The newest `limit` pauses of each kind between two steps, ordered by step. Excludes external evaluations, which do
/// not pause training. Throws SqlFailure.
std::vector<PauseRow> recent_pauses(Reader& reader, std::int64_t run, std::int64_t first, std::int64_t last,
                                    std::int64_t limit);

/// A validation made by the training process.
struct ValidationRow {
  std::int64_t step = 0;
  double loss = 0, sacrebleu = 0;  // NaN if absent or not finite
};

/// The updates of a run whose evaluations on its validation set are not comparable with the newest one: their losses
/// (another content of the validation set) and their BLEU (another set, tokenizer, beam, …).
struct ComparableScores {
  std::set<std::int64_t> other_loss, other_bleu;
};
/// Throws SqlFailure.
ComparableScores comparable_scores(Reader& reader, std::int64_t run);

/// The newest `limit` validations on the set `valid_set`, or on the most recently used set if there are none on
/// `valid_set`. Ordered by step. Excludes validations of updates that a later rollback has discarded, and those of
/// another content of the set or whose loss is unknown; BLEU that is measured otherwise than the newest is NaN. Throws
/// SqlFailure.
std::vector<ValidationRow> recent_validations(Reader& reader, std::int64_t run, std::string_view valid_set,
                                              std::size_t limit);

}  // namespace babelring::store
