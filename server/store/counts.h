#pragma once

#include <array>
#include <cstdint>
#include <mutex>

#include "server/store/ingest.h"
#include "server/store/metrics.h"

namespace babelring::store {

/// Counters of the writer since the server started.
struct WriterCounts {
  /// Upper bounds of the `commits` histogram in seconds. Its last bucket counts longer commits.
  static constexpr std::array<double, 8> commit_bounds_s = {0.001, 0.0025, 0.005, 0.01, 0.025, 0.1, 0.5, 2.5};
  std::array<std::uint64_t, 9> commits{};
  double commit_seconds = 0;
  std::uint64_t batches = 0, records = 0, duplicates = 0;
  std::uint64_t points = 0;  // numeric values in step records
  std::uint64_t unknown_members = 0;
  std::uint64_t refused = 0, failed = 0;
};

/// Collects WriterCounts. Updated by the writer's thread; read() may be called from any thread.
class WriterCounters {
 public:
  void record_commit(double seconds);
  void record_batch(const Batch& batch, const IngestResult& result);
  void record_failure(bool refused);
  WriterCounts read() const;

 private:
  const std::uint64_t values_per_step_ = stored_metrics(StepRecord{}).size();  // without memory_bytes and gpu
  mutable std::mutex mutex_;
  WriterCounts counts_;
};

}  // namespace babelring::store
