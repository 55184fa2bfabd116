#include "server/store/metrics.h"

#include <bit>
#include <cmath>
#include <cstring>

namespace babelring::store {

static_assert(std::endian::native == std::endian::little, "the database stores little-endian doubles");

RankAggregate rank_aggregate(std::string_view key) {
  if (key == "update_target_tokens") return RankAggregate::mean;  // every rank reports the total of the update
  if (key.starts_with("network_")) return RankAggregate::host_sum;
  if (key.starts_with("memory_bytes") || key.ends_with("_bytes") || key.ends_with("_tokens") ||
      key.ends_with("_per_second") || key == "sentences" || key == "flops" || key == "power_w") {
    return RankAggregate::sum;
  }
  return RankAggregate::mean;
}

std::string_view to_string(RankAggregate aggregate) {
  switch (aggregate) {
    case RankAggregate::sum:
      return "sum";
    case RankAggregate::host_sum:
      return "host_sum";
    case RankAggregate::mean:
      break;
  }
  return "mean";
}

std::vector<std::pair<std::string, double>> stored_metrics(const StepRecord& step) {
  auto metrics = metrics_of(step);
  const double seconds = step.step_ms / 1000;
  const auto rate = [&](const char* key, std::int64_t amount) {
    metrics.emplace_back(key, seconds > 0 ? static_cast<double>(amount) / seconds : std::nan(""));
  };
  rate("source_tokens_per_second", step.source_tokens);
  rate("target_tokens_per_second", step.target_tokens);
  rate("network_rx_bytes_per_second", step.network_rx_bytes);
  rate("network_tx_bytes_per_second", step.network_tx_bytes);
  return metrics;
}

double PackedDoubles::operator[](std::size_t index) const {
  double value;
  std::memcpy(&value, bytes_.data() + index * sizeof value, sizeof value);
  return value;
}

void add_to_bucket(BucketEntry& entry, double value, std::int64_t offset) {
  if (!std::isfinite(value)) return;
  if (entry.finite == 0 || value < entry.min) {
    entry.min = value;
    entry.min_offset = static_cast<std::uint16_t>(offset);
  }
  if (entry.finite == 0 || value > entry.max) {
    entry.max = value;
    entry.max_offset = static_cast<std::uint16_t>(offset);
  }
  entry.sum += value;
  ++entry.finite;
}

}  // namespace babelring::store
