#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <tuple>
#include <vector>

#include "base/records.h"
#include "server/store/layouts.h"
#include "server/store/log_writer.h"
#include "server/store/reporter.h"
#include "server/store/sequence_set.h"
#include "server/store/sqlite.h"

namespace babelring::store {

/// Records of one rank in one attempt of one run, as they arrived. Their headers agree with the batch.
struct Batch {
  std::string run;
  std::int64_t attempt = 1, rank = 0;
  std::string host;
  std::vector<Record> records;
  std::function<void(Database&)> besides = nullptr;  // called in the same transaction, after the records
  std::int64_t unknown_members = 0;                  // ignored: from a worker newer than this program
  Reporter reporter = {};
};

/// Outcome of a batch.
struct IngestResult {
  enum class Status { stored, refused, rejected, disk_full, failed };
  struct Fresh {
    std::size_t index;  // of the record in the batch
    std::string id;     // of the eval or checkpoint it made, else empty
  };
  Status status = Status::stored;
  std::string detail;       // when not stored
  Refusal::Kind refusal{};  // when refused: the reporter may not report this
  std::int64_t duplicates = 0;
  std::vector<Fresh> fresh;
  bool run_changed = false;  // created, or its state or attempt changed
  std::int64_t ranks = 0;    // that the attempt has; 0: not known
};

/// A batch that must not be stored; the message tells its sender why.
class Rejected : public Failure {
 public:
  using Failure::Failure;
};

/// Writes batches into the tables. Used on the writer's thread, within its transaction.
class Ingest {
 public:
  explicit Ingest(Database& database) : database_(database), layouts_(database), logs_(database) {}

  /// Refused, with nothing changed, if the reporter may not report this. Throws SqlFailure or Rejected: then roll the
  /// transaction back and call forget().
  IngestResult apply(const Batch& batch, std::int64_t now_ms);
  /// Drops what is cached between batches; after a rollback, and after changes made by others.
  void forget();

 private:
  struct RankState {
    SequenceSet arrived;
    SequenceSet::Ranges stored;  // as in the table
    std::int64_t first_update = 0, last_update = 0;
    std::set<std::int64_t> touched;  // buckets to summarise
  };
  using RankKey = std::tuple<std::int64_t, std::int64_t, std::int64_t>;  // run, attempt, rank
  struct Target {
    const Batch& batch;
    std::int64_t run, now_ms;
    bool current;  // the batch is of the run's newest attempt
    RankState& rank;
    IngestResult& result;
  };

  struct Admitted {
    std::int64_t run;  // its number
    bool current;      // the batch is of the run's newest attempt
  };
  /// Why the batch is not taken, or nothing. `known`: its run, if there is one.
  std::optional<Refusal> refuse(const Batch& batch, const std::optional<CommandRow>& known, std::int64_t now_ms);
  /// Creates the run unless it is known; a newer attempt becomes its current one. Late records of an older attempt are
  /// stored like the others, but no longer change the state of the run.
  Admitted admit(const Batch& batch, const std::optional<CommandRow>& known, std::int64_t now_ms, IngestResult& result);
  /// The greatest that is stored; 0: none.
  std::int64_t newest_sequence(const RankKey& key);
  RankState& rank_state(const RankKey& key, const Batch& batch, std::int64_t now_ms);
  std::string store(const Target& target, const Record& record, const StepRecord& step);
  std::string store(const Target& target, const Record& record, const EvalRecord& eval);
  std::string store(const Target& target, const Record& record, const CheckpointRecord& checkpoint);
  std::string store(const Target& target, const Record& record, const LogRecord& log);
  std::string store(const Target& target, const Record& record, const LifecycleRecord& lifecycle);
  void start_run(const Target& target, const Record& record, const LifecycleRecord& lifecycle);
  void rewind(const Target& target, std::int64_t update);
  void end_attempt(const Target& target, const Record& record, const LifecycleRecord& lifecycle);
  void summarise(const Target& target, std::int64_t bucket);
  void save_rank(const Target& target);

  Database& database_;
  Layouts layouts_;
  LogWriter logs_;
  std::map<RankKey, RankState> ranks_;
  std::set<std::pair<std::int64_t, std::int64_t>> known_layouts_;  // run, layout
};

}  // namespace babelring::store
