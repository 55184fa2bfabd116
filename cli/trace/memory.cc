#include "cli/trace/memory.h"

#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <boost/json/object.hpp>
#include <filesystem>
#include <memory>

#include "base/atomic_file.h"
#include "base/failure.h"
#include "cli/trace/dry_options.h"
#include "lab/memory/memory_trace.h"

namespace babelring {
namespace {

namespace fs = std::filesystem;

struct MemoryArguments {
  std::string run, output;
  DryOptions dry;
  bool as_json = false, as_csv = false, as_html = false;
};

/// The file of a run's newest update of lab.memory.at, of its first rank. The names of its ranks' files differ in their
/// ends only.
fs::path newest_report(const fs::path& run) {
  std::vector<fs::path> files;
  std::error_code absent;
  for (const auto& entry : fs::directory_iterator(run / "lab", absent)) {
    const std::string name = entry.path().filename();
    if (name.starts_with("memory-update-") && name.ends_with(".json")) files.push_back(entry.path());
  }
  if (files.empty()) {
    throw UsageFailure(
        fmt::format("trace memory: {} has no lab/memory-update-….json: train with lab.memory.at=UPDATE", run.string()));
  }
  const auto update_of = [](const fs::path& file) {
    const std::string name = file.filename();
    return name.substr(0, name.find("-rank-"));
  };
  std::sort(files.begin(), files.end(), [&](const fs::path& a, const fs::path& b) {
    const std::string newest = update_of(b), update = update_of(a), name = a.filename(), other = b.filename();
    return update != newest ? update > newest : std::pair(name.size(), name) < std::pair(other.size(), other);
  });
  const auto same_update = [&](const fs::path& file) { return update_of(file) == update_of(files.front()); };
  const auto ranks = std::count_if(files.begin(), files.end(), same_update);
  if (ranks > 1) {
    fmt::print(stderr, "{} of {} ranks; name another's file to see it\n", files.front().filename().string(), ranks);
  }
  return files.front();
}

MemoryReport stored_report(const std::string& run) {
  const fs::path file = fs::is_directory(run) ? newest_report(run) : fs::path(run);
  const Result<json::value> value = parse_json(read_file(file));
  if (!value) fail("{}: {}; expected a file memory-update-….json", file.string(), value.error());
  Result<MemoryReport> report = memory_report_from_json(*value);
  if (!report) fail("{}: {}", file.string(), report.error());
  return std::move(*report);
}

MemoryReport dry_report(const DryOptions& options) {
  const TrainConfig config = options.config();
  DryUpdate update(config, options.batch(config, micro_batch_tokens(config)));
  return trace_dry_update(update);
}

void run_memory(const MemoryArguments& arguments) {
  if (arguments.run.empty() == arguments.dry.config_file.empty()) {
    throw UsageFailure("trace memory: expected either RUN or --config FILE");
  }
  if (!arguments.run.empty() && !arguments.dry.overrides.empty()) {
    throw UsageFailure(fmt::format("trace memory: '{}' changes a configuration, expected --config FILE instead of {}",
                                   arguments.dry.overrides.front(), arguments.run));
  }
  const MemoryReport report = arguments.run.empty() ? dry_report(arguments.dry) : stored_report(arguments.run);
  if (report.moments.empty()) fail("trace memory: the update ran no ops");
  const std::string text = arguments.as_json   ? to_text(to_json(report)) + '\n'
                           : arguments.as_csv  ? csv_of(report)
                           : arguments.as_html ? html_of(report)
                                               : text_of(report);
  write_output(text, arguments.output);
}

}  // namespace

void add_trace_memory(CLI::App& trace) {
  CLI::App* command = trace.add_subcommand(
      "memory", "Shows the memory inside an update: its curve, the peak with op and layer, and what the peak holds");
  const auto arguments = std::make_shared<MemoryArguments>();
  command->add_option("run", arguments->run, "folder of a run with lab.memory.at, or a file memory-update-….json in it")
      ->type_name("RUN");
  command->add_option("settings", arguments->dry.overrides, "key=value, with --config")->type_name("KEY=VALUE");
  arguments->dry.declare(*command, "source and target tokens of the micro-batch, each; default: as configured");
  auto* json = command->add_flag("--json", arguments->as_json, "the whole report as JSON (docs/formats.md)");
  auto* csv = command->add_flag("--csv", arguments->as_csv, "a line for each op");
  auto* html = command->add_flag("--html", arguments->as_html, "a page with the curve");
  json->excludes(csv)->excludes(html);
  csv->excludes(html);
  command->add_option("--output", arguments->output, "file to write; default: standard output")->type_name("FILE");
  command->callback([arguments] {
    // With --config, the first word is a setting.
    if (!arguments->dry.config_file.empty() && arguments->run.find('=') != std::string::npos) {
      arguments->dry.overrides.insert(arguments->dry.overrides.begin(), arguments->run);
      arguments->run.clear();
    }
    run_memory(*arguments);
  });
}

}  // namespace babelring
