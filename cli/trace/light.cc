#include "cli/trace/light.h"

#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <boost/json/object.hpp>
#include <filesystem>
#include <memory>
#include <string>

#include "base/json.h"
#include "base/records/records.h"
#include "cli/trace/spooled_steps.h"

namespace babelring {

namespace {

namespace fs = std::filesystem;

struct LightArguments {
  fs::path run;
  int rank = 0;
};

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
  for (const fs::path& spool : spools_of(arguments.run, arguments.rank)) {
    for_each_step(spool,
                  [](const RecordHeader&, const StepRecord& step) { fmt::print("{}\n", to_text(light_line(step))); });
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
