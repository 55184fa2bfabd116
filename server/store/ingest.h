#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <set>
#include <string>
#include <tuple>
#include <vector>

#include "nmt/base/records.h"
#include "server/store/layouts.h"
#include "server/store/log_writer.h"
#include "server/store/sequence_set.h"
#include "server/store/sqlite.h"

namespace babelring::store {

/// Records of one rank in one attempt of one run, as they came. Their headers say the same as the batch.
struct Batch {
  std::string run;
  std::int64_t attempt = 1, rank = 0;
  std::string host;
  std::vector<Record> records;
  std::function<void(Database&)> besides = nullptr;  // done in the same transaction, after the records
  std::int64_t unknown_members = 0;                  // passed over: of a worker that is newer than this program
};

/// What became of a batch.
struct IngestResult {
  enum class Status { stored, rejected, disk_full, failed };
  struct Fresh {
    std::size_t index;  // of the record in the batch
    std::string id;     // of the eval or checkpoint it made, else empty
  };
  Status status = Status::stored;
  std::string detail;  // when not stored
  std::int64_t duplicates = 0;
  std::vector<Fresh> fresh;
  bool run_changed = false;  // created, or its state or attempt changed
};

/// A batch that must not be stored, for a reason its sender can understand.
class Rejected : public Failure {
 public:
  using Failure::Failure;
};

/// Puts batches into the tables. Belongs to the writer's thread; every call is made within the writer's transaction.
class Ingest {
 public:
  explicit Ingest(Database& database) : database_(database), layouts_(database), logs_(database) {}

  /// Throws SqlFailure or Rejected; the transaction must then be rolled back and forget() called.
  IngestResult apply(const Batch& batch, std::int64_t now_ms);
  /// Drops what is remembered between batches, after a rollback.
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
    bool current;  // of the run's newest attempt
    RankState& rank;
    IngestResult& result;
  };

  struct Admitted {
    std::int64_t run;  // its number
    bool current;      // whether the batch is of the newest attempt
  };
  /// Finds or creates the run; a newer attempt becomes its current one. What an older attempt still had in its spool
  /// is stored like the rest, but no longer says how the run stands.
  Admitted admit(const Batch& batch, std::int64_t now_ms, IngestResult& result);
  RankState& rank_state(const RankKey& key, const Batch& batch, std::int64_t now_ms);
  std::string store(const Target& target, const Record& record, const StepRecord& step);
  std::string store(const Target& target, const Record& record, const EvalRecord& eval);
  std::string store(const Target& target, const Record& record, const CheckpointRecord& checkpoint);
  std::string store(const Target& target, const Record& record, const LogRecord& log);
  std::string store(const Target& target, const Record& record, const LifecycleRecord& lifecycle);
  void start_run(const Target& target, const Record& record, const LifecycleRecord& lifecycle);
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
