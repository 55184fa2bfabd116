#include "cli/trace/light.h"

#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <boost/json/object.hpp>
#include <filesystem>
#include <map>
#include <memory>
#include <string>

#include "base/failure.h"
#include "base/json.h"
#include "base/parse_number.h"
#include "base/records.h"
#include "nmt/data/line_reader.h"

namespace babelring {

namespace {

namespace fs = std::filesystem;

struct LightArguments {
  fs::path run;
  int rank = 0;
};

/// By attempt, in their order.
std::map<std::int64_t, fs::path> spools_of(const fs::path& run, int rank) {
  constexpr std::string_view prefix = "attempt-";
  std::map<std::int64_t, fs::path> spools;
  std::error_code none;
  for (const auto& entry : fs::directory_iterator(run / "spool", none)) {
    const std::string name = entry.path().filename().string();
    if (!name.starts_with(prefix)) continue;
    const auto attempt = parse_number<std::int64_t>(std::string_view(name).substr(prefix.size()));
    const fs::path file = entry.path() / fmt::format("rank-{}.jsonl", rank);
    if (attempt && fs::exists(file)) spools[*attempt] = file;
  }
  if (spools.empty()) {
    throw UsageFailure(
        fmt::format("{}: found no spool/attempt-*/rank-{}.jsonl, expected the folder of a run", run.string(), rank));
  }
  return spools;
}

json::object light_line(const StepRecord& step) {
  json::object line{{"step", step.update},
                    {"data_io_time", step.data_ms / 1e3},
                    {"model_time", (step.step_ms - step.data_ms) / 1e3},
                    {"flops", step.flops}};
  if (step.step_ms > 0) line["token_freq"] = static_cast<double>(step.target_tokens) / step.step_ms * 1e3;
  if (const auto peak = step.memory_bytes.find("peak"); peak != step.memory_bytes.end()) {
    line["mem_GiB"] = static_cast<double>(peak->second) / (std::int64_t{1} << 30);
  }
  return line;
}

void print_light(const LightArguments& arguments) {
  for (const auto& [attempt, spool] : spools_of(arguments.run, arguments.rank)) {
    LineReader reader(spool);
    for (RawLine line; reader.next(line);) {
      const Result<json::value> object = parse_json(line.text);
      if (!object || !object->is_object()) continue;  // the last line of a rank that was killed
      UnknownMembers newer;
      const Result<Record> record = record_from_json(object->get_object(), &newer);
      if (!record) fail("{}: line {}: {}", spool.string(), line.number, record.error());
      if (const auto* step = std::get_if<StepRecord>(&record->body)) fmt::print("{}\n", to_text(light_line(*step)));
    }
  }
}

}  // namespace

void add_trace_light(CLI::App& trace) {
  CLI::App* command = trace.add_subcommand(
      "light",
      "Prints a line of JSON for each update of a run, in the form of another tool's light profiler: step, "
      "data_io_time, model_time (seconds), flops, token_freq (target tokens per second), mem_GiB");
  const auto arguments = std::make_shared<LightArguments>();
  command->add_option("run", arguments->run, "folder of a run, such as runs/help")->required();
  command->add_option("--rank", arguments->rank, "rank whose updates are printed")
      ->check(CLI::NonNegativeNumber)
      ->capture_default_str();
  command->callback([arguments] { print_light(*arguments); });
}

}  // namespace babelring
