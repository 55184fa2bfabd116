#include "base/records/records.h"

#include <array>
#include <cmath>

#include "base/records/fields.h"

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
  template <class Number>
  void operator()(std::string_view name, const std::map<std::string, Number>& values) {
    for (const auto& [purpose, number] : values) {
      metrics.emplace_back(std::string(name) + "." + purpose, static_cast<double>(number));
    }
  }
  template <class Number>
  void if_known(std::string_view name, const std::map<std::string, Number>& values) {
    (*this)(name, values);
  }
};

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

}  // namespace babelring
