#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <tuple>
#include <vector>

#include "base/records/records.h"
#include "server/store/admission.h"
#include "server/store/logs.h"
#include "server/store/metrics.h"
#include "server/store/sqlite.h"
#include "server/store/steps.h"

namespace babelring::store {

/// Result of storing a batch.
struct IngestResult {
  enum class Status { stored, refused, rejected, disk_full, failed };
  struct Fresh {
    std::size_t index;  // position in the batch
    std::string id;     // id of the eval, checkpoint or artifact; otherwise empty
  };
  Status status = Status::stored;
  std::string detail;       // set unless stored
  Refusal::Kind refusal{};  // set if refused
  std::int64_t stored = 0;  // Refusal::stored
  std::int64_t duplicates = 0;
  std::vector<Fresh> fresh;
  bool run_changed = false;  // the run was created, or its state or attempt changed
  std::int64_t ranks = 0;    // of the attempt; 0: unknown
};

/// An invalid batch. The message is meant for the sender.
class Rejected : public Failure {
 public:
  using Failure::Failure;
};

/// Writes batches to the tables. Call it only on the writer's thread, inside its transaction.
class Ingest {
 public:
  explicit Ingest(Database& database) : database_(database), layouts_(database), logs_(database) {}

  /// Stores a batch. The status is `refused`, and nothing changes, if the reporter lacks permission. Throws SqlFailure
  /// or Rejected; the caller must then roll back the transaction and call forget().
  IngestResult apply(const Batch& batch, std::int64_t now_ms);
  /// Clears the caches. Call this after a rollback, and after changes made outside this class.
  void forget();

 private:
  struct RankState {
    SequenceNumbers arrived;
    SequenceNumbers::Ranges stored;  // as stored in the table
    std::int64_t first_update = 0, last_update = 0;
    std::set<std::int64_t> touched;  // buckets to summarise again
  };
  using RankKey = std::tuple<std::int64_t, std::int64_t, std::int64_t>;  // run, attempt, rank
  struct Target {
    const Batch& batch;
    std::int64_t run, now_ms;
    bool current;  // the batch belongs to the run's newest attempt
    RankState& rank;
    IngestResult& result;
  };

  RankState& rank_state(const RankKey& key, const Batch& batch, std::int64_t now_ms);
  std::string store(const Target& target, const Record& record, const StepRecord& step);
  std::string store(const Target& target, const Record& record, const EvalRecord& eval);
  std::string store(const Target& target, const Record& record, const CheckpointRecord& checkpoint);
  std::string store(const Target& target, const Record& record, const ArtifactRecord& artifact);
  std::string store(const Target& target, const Record& record, const LogRecord& log);
  std::string store(const Target& target, const Record& record, const LifecycleRecord& lifecycle);
  void start_run(const Target& target, const Record& record, const LifecycleRecord& lifecycle);
  void rewind(const Target& target, std::int64_t update);
  void end_attempt(const Target& target, const Record& record, const LifecycleRecord& lifecycle);
  std::int64_t end_on_clock_of_rank_0(const Target& target, const Record& record);
  void save_rank(const Target& target);

  Database& database_;
  KeyLayouts layouts_;
  LogWriter logs_;
  std::map<RankKey, RankState> ranks_;
  std::set<std::pair<std::int64_t, std::int64_t>> known_layouts_;  // run, layout
};

}  // namespace babelring::store
