#include "base/records.h"

#include <array>
#include <cmath>
#include <random>

#include "base/clock.h"
#include "base/record_fields.h"

namespace babelring {
namespace {

/// A visitor that collects numeric members as metrics and skips the others.
struct MetricVisitor {
  std::vector<std::pair<std::string, double>> metrics;

  void required(std::string_view, std::int64_t) {}  // the update is the x-axis, not a metric
  void if_known(std::string_view name, double value) {
    if (!std::isnan(value)) metrics.emplace_back(name, value);
  }
  void operator()(std::string_view name, double value) { metrics.emplace_back(name, value); }
  void operator()(std::string_view name, std::int64_t value) { metrics.emplace_back(name, static_cast<double>(value)); }
  void operator()(std::string_view name, bool value) { metrics.emplace_back(name, value ? 1 : 0); }
  void operator()(std::string_view, const std::string&) {}
  void operator()(std::string_view name, const std::map<std::string, std::int64_t>& values) {
    for (const auto& [purpose, bytes] : values) {
      metrics.emplace_back(std::string(name) + "." + purpose, static_cast<double>(bytes));
    }
  }
};

constexpr std::string_view crockford = "0123456789ABCDEFGHJKMNPQRSTVWXYZ";

}  // namespace

std::string_view kind_of(const RecordBody& body) {
  constexpr std::array<std::string_view, 6> kinds = {"step", "eval", "checkpoint", "log", "lifecycle", "artifact"};
  static_assert(kinds.size() == std::variant_size_v<RecordBody>);
  return kinds[body.index()];
}

std::vector<std::pair<std::string, double>> metrics_of(const StepRecord& step) {
  MetricVisitor visitor;
  visit_fields(step, visitor);
  visitor.if_known("excess", step.nll - step.entropy);
  return std::move(visitor.metrics);
}

std::string make_id(char prefix) {
  thread_local std::random_device entropy;
  std::string id(28, '0');
  id[0] = prefix;
  id[1] = '_';
  auto time = static_cast<std::uint64_t>(wall_time_ms()) & 0xffffffffffffULL;
  for (std::size_t i = 11; i >= 2; --i, time >>= 5) id[i] = crockford[time & 31];  // 48 bits in 10 digits
  for (std::size_t i = 12; i < 28; i += 4) {
    std::uint32_t bits = entropy();  // 80 bits in 16 digits
    for (std::size_t j = 0; j < 4; ++j, bits >>= 5) id[i + j] = crockford[bits & 31];
  }
  return id;
}

bool valid_id(std::string_view id, char prefix) {
  return id.size() == 28 && id[0] == prefix && id[1] == '_' &&
         id.find_first_not_of(crockford, 2) == std::string_view::npos;
}

}  // namespace babelring
