#include "server/store/counts.h"

#include <algorithm>

namespace babelring::store {
void WriterCounters::record_commit(double seconds) {
  const auto& bounds = WriterCounts::commit_bounds_s;
  const auto place = std::lower_bound(bounds.begin(), bounds.end(), seconds) - bounds.begin();
  const std::lock_guard lock(mutex_);
  ++counts_.commits[static_cast<std::size_t>(place)];
  counts_.commit_seconds += seconds;
}

void WriterCounters::record_batch(const Batch& batch, const IngestResult& result) {
  std::uint64_t points = 0;
  for (const auto& fresh : result.fresh) {
    const auto* step = std::get_if<StepRecord>(&batch.records[fresh.index].body);
    if (step != nullptr) points += values_per_step_ + step->memory_bytes.size() + step->gpu.size();
  }
  const std::lock_guard lock(mutex_);
  ++counts_.batches;
  counts_.records += result.fresh.size();
  counts_.duplicates += static_cast<std::uint64_t>(result.duplicates);
  counts_.points += points;
  counts_.unknown_members += static_cast<std::uint64_t>(batch.unknown_members);
}

void WriterCounters::record_failure(bool refused) {
  const std::lock_guard lock(mutex_);
  ++(refused ? counts_.refused : counts_.failed);
}

WriterCounts WriterCounters::read() const {
  const std::lock_guard lock(mutex_);
  return counts_;
}

}  // namespace babelring::store
