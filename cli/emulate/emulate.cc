#include "cli/emulate/emulate.h"

#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <cmath>

#include "base/text.h"
#include "insight/report/report_text.h"

namespace babelring {

json::object prediction_json(const insight::RankRecord& record, const insight::RunSetup& setup,
                             const insight::Prediction& prediction) {
  json::object parts;
  for (const auto& [name, ms] : insight::named_parts(prediction.parts)) parts[name] = ms;
  const insight::Topology& topology = setup.topology;
  return {{"model", record.model},
          {"machine", record.machine},
          {"hosts", topology.hosts},
          {"ranks_per_host", topology.ranks_per_host},
          {"ranks", topology.ranks()},
          {"algorithm", word_of(insight::algorithm_choices(), topology.algorithm)},
          {"offered", insight::is_offered(topology.algorithm)},
          {"wire", word_of(wire_choices(), topology.wire)},
          {"optimizer", word_of(insight::optimizer_choices(), topology.optimizer)},
          {"updates", setup.updates},
          {"step_ms", json::object{{"median", prediction.step_ms.median},
                                   {"mean", prediction.step_ms.mean},
                                   {"p95", prediction.step_ms.p95},
                                   {"p99", prediction.step_ms.p99},
                                   {"low", prediction.low_ms},
                                   {"high", prediction.high_ms}}},
          {"compute_error", record.compute_error},
          {"compute_comparisons", record.compute_comparisons},
          {"step_error", record.step_error},
          {"step_comparisons", record.step_comparisons},
          {"step_ranks", record.step_ranks},
          {"parts", std::move(parts)},
          {"waiting_for_slowest_ms", prediction.parts.waiting_for_slowest},
          {"communication_ms", prediction.communication_ms},
          {"unit", record.unit},
          {"units_per_s", prediction.size_per_s},
          {"efficiency", prediction.efficiency},
          {"host_megabytes", prediction.host_megabytes},
          {"rank_megabytes", prediction.rank_megabytes},
          {"seconds", prediction.seconds},
          {"warnings", json::array(prediction.warnings.begin(), prediction.warnings.end())}};
}

std::string csv_header() {
  std::string header = "hosts,ranks_per_host,ranks,algorithm,wire,optimizer,step_ms,low_ms,high_ms,p95_ms,p99_ms";
  for (const auto& [name, ms] : insight::named_parts({})) header += std::string(",") + name;
  return header + ",units_per_s,efficiency,host_megabytes\n";
}

std::string csv_row(const insight::RunSetup& setup, const insight::Prediction& prediction) {
  const insight::Topology& topology = setup.topology;
  std::string row = fmt::format(
      "{},{},{},{},{},{},{:.6g},{:.6g},{:.6g},{:.6g},{:.6g}", topology.hosts, topology.ranks_per_host, topology.ranks(),
      word_of(insight::algorithm_choices(), topology.algorithm), word_of(wire_choices(), topology.wire),
      word_of(insight::optimizer_choices(), topology.optimizer), prediction.step_ms.median, prediction.low_ms,
      prediction.high_ms, prediction.step_ms.p95, prediction.step_ms.p99);
  for (const auto& [name, ms] : insight::named_parts(prediction.parts)) row += fmt::format(",{:.6g}", ms);
  return row + fmt::format(",{:.6g},{:.6g},{:.6g}\n", prediction.size_per_s, prediction.efficiency,
                           prediction.host_megabytes);
}

std::string step_with_error(const insight::RankRecord& record, const insight::Prediction& prediction) {
  std::string text = fmt::format("{:.2f} ms", prediction.step_ms.median);
  if (prediction.high_ms > prediction.low_ms) {
    text += fmt::format(", {:.2f} to {:.2f}", prediction.low_ms, prediction.high_ms);
  }
  if (record.step_error > 0) {
    return text + fmt::format(", ± {} ({} with runs)", insight::percent_words(record.step_error),
                              counted(static_cast<double>(record.step_comparisons), "comparison"));
  }
  if (record.compute_error <= 0) return text + " (error of the compute times unknown)";
  return text + fmt::format(" (compute ± {}, {})", insight::percent_words(record.compute_error),
                            counted(static_cast<double>(record.compute_comparisons), "comparison"));
}

std::string duration_text(double seconds) {
  const auto whole = static_cast<std::int64_t>(std::llround(seconds));
  if (whole < 120) return fmt::format("{:.3g} s", seconds);
  if (whole < 7200) return fmt::format("{} min {} s", whole / 60, whole % 60);
  return fmt::format("{} h {} min", whole / 3600, whole % 3600 / 60);
}

void add_emulate(CLI::App& app) {
  CLI::App* emulate = app.add_subcommand("emulate", "Predicts the speed of runs from the times of one rank");
  emulate->require_subcommand(1);
  add_emulate_record(*emulate);
  add_emulate_run(*emulate);
  add_emulate_scale(*emulate);
  add_emulate_gpus(*emulate);
  add_emulate_stalls(*emulate);
  add_emulate_link(*emulate);
  add_emulate_compare(*emulate);
}

}  // namespace babelring
