#include "lab/emulated_rank.h"

#include <fmt/format.h>

#include "base/failure.h"

namespace babelring {

EmulatedTimes emulated_times(const insight::RankRecord& record, const std::string& file,
                             const insight::RecordedModel& run, int rank) {
  if (record.ops.empty()) {
    throw UsageFailure(
        fmt::format("{}: found no times of ops, expected a record of `nmt emulate record --config`", file));
  }
  const std::string difference = record.difference_from(run);
  if (!difference.empty()) throw UsageFailure(fmt::format("{}: {}", file, difference));
  EmulatedTimes times{.ops = {}, .factors = record.jitter, .seed = static_cast<std::uint64_t>(rank)};
  if (record.processors > 0) times.processors = {record.processors_of_rank(), record.spare_processors_of_rank()};
  for (const insight::OpRecord& op : record.ops) {
    times.ops.push_back({op.phase, op.op, op.fixed_ms, op.ms_per_gflop, op.ms_per_gb});
  }
  return times;
}

}  // namespace babelring
