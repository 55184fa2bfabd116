#include "server/store/metrics.h"

#include <fmt/ranges.h>

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstring>
#include <sstream>

namespace babelring::store {

static_assert(std::endian::native == std::endian::little, "the database stores little-endian doubles");

RankAggregate rank_aggregate(std::string_view key) {
  if (key == "update_target_tokens") return RankAggregate::mean;  // every rank reports the total of the update
  if (key.starts_with("corpus_")) return RankAggregate::mean;     // rank 0 reports that of all
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
  const double seconds = step.times.step / 1000;
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

std::int64_t KeyLayouts::intern(const std::vector<std::string>& keys) {
  const std::string text = fmt::format("{}", fmt::join(keys, "\n"));
  if (const auto known = by_text_.find(text); known != by_text_.end()) return known->second;
  database_.prepare("INSERT INTO layouts(keys) VALUES (?) ON CONFLICT DO NOTHING").bind(text).run();
  Statement find = database_.prepare("SELECT layout FROM layouts WHERE keys = ?");
  std::int64_t layout = 0;
  if (!find.bind(text).next(layout)) fail("database: layout of {} keys was not stored", keys.size());
  return by_text_[text] = layout;
}

const std::vector<std::string>& KeyLayouts::keys(std::int64_t layout) {
  if (const auto known = by_number_.find(layout); known != by_number_.end()) return known->second;
  Statement find = database_.prepare("SELECT keys FROM layouts WHERE layout = ?");
  std::string lines;
  if (!find.bind(layout).next(lines)) fail("database: layout {} is missing", layout);
  std::vector<std::string> keys;
  std::istringstream text(lines);
  for (std::string key; std::getline(text, key);) keys.push_back(std::move(key));
  return by_number_[layout] = std::move(keys);
}

std::optional<std::size_t> KeyLayouts::place(std::int64_t layout, std::string_view key) {
  const auto& all = keys(layout);
  const auto found = std::find(all.begin(), all.end(), key);
  if (found == all.end()) return std::nullopt;
  return static_cast<std::size_t>(found - all.begin());
}

}  // namespace babelring::store
