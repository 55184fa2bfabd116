#include "nmt/lab/emulation/emulated_rank.h"

#include <fmt/format.h>

#include "base/failure.h"
#include "base/grouped.h"

namespace babelring {

EmulatedTimes emulated_times(const insight::RankRecord& record, const std::string& file, std::int64_t parameters,
                             int rank) {
  if (record.ops.empty()) {
    throw UsageFailure(
        fmt::format("{}: found no times of ops, expected a record of `nmt emulate record --config`", file));
  }
  if (record.parameters != parameters) {
    throw UsageFailure(fmt::format("{}: the record is of a model with {} parameters, the configuration's has {}", file,
                                   grouped(static_cast<double>(record.parameters)),
                                   grouped(static_cast<double>(parameters))));
  }
  EmulatedTimes times{.ops = {}, .factors = record.jitter, .seed = static_cast<std::uint64_t>(rank)};
  if (record.processors > 0) times.processors = {record.processors_of_rank(), record.spare_processors_of_rank()};
  for (const insight::OpRecord& op : record.ops) {
    times.ops.push_back({op.phase, op.op, op.fixed_ms, op.ms_per_gflop, op.ms_per_gb});
  }
  return times;
}

}  // namespace babelring
