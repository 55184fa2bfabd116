#include "cli/trace/dry_options.h"

#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <boost/json/object.hpp>
#include <filesystem>
#include <memory>

#include "base/failure.h"
#include "base/files.h"
#include "base/options/usage.h"
#include "base/records/event_file.h"
#include "base/result.h"
#include "cli/model_options.h"
#include "lab/graph/op_graph.h"
#include "lab/memory/memory_trace.h"
#include "nmt/comm/host_name.h"
#include "nmt/data/gssm/graph.h"
#include "nmt/data/manifest.h"

namespace babelring {
namespace {

enum class Depth { layer, op };
enum class Format { dot, json, svg, tensorboard };
constexpr std::int64_t default_tokens = 16;

struct GraphArguments {
  DryOptions dry;
  std::string checkpoint, output;
  Depth depth = Depth::layer;
  Format format = Format::dot;
  bool training = false;
};

/// The configuration file of the update: the given one, or that of the checkpoint.
DryOptions options_of(const GraphArguments& arguments) {
  if (arguments.checkpoint.empty() == arguments.dry.config_file.empty()) {
    throw UsageFailure("trace graph: expected either --config FILE or --checkpoint DIR");
  }
  DryOptions options = arguments.dry;
  if (!arguments.checkpoint.empty()) options.config_file = find_checkpoint(arguments.checkpoint) / "config.yaml";
  return options;
}

void write_board(const OpGraph& graph, const std::string& folder) {
  if (folder.empty()) throw UsageFailure("trace graph: --format tensorboard needs --output FOLDER");
  EventFile file(folder, host_name());
  if (!file.write_graph(graph_def_of(graph))) fail("{}", file.message());
  fmt::print("{}\n", file.path().string());
}

void run_graph(const GraphArguments& arguments) {
  const DryOptions options = options_of(arguments);
  const TrainConfig config = options.config();
  DryUpdate update(config, options.batch(config, default_tokens));
  OpGraph graph = trace_graph(update, arguments.training);
  if (arguments.depth == Depth::layer) graph = by_layer(graph);
  if (arguments.format == Format::tensorboard) return write_board(graph, arguments.output);
  const std::string text = arguments.format == Format::json  ? to_text(to_json(graph)) + '\n'
                           : arguments.format == Format::svg ? svg_of(graph)
                                                             : dot_of(graph);
  write_output(text, arguments.output);
}

}  // namespace

void add_trace_graph(CLI::App& trace) {
  CLI::App* command = trace.add_subcommand(
      "graph",
      "Draws the ops of a model as a graph: an edge leads from the op that writes a tensor to each op that reads it");
  const auto arguments = std::make_shared<GraphArguments>();
  arguments->dry.declare(*command, "source and target tokens in the shapes, each; default: 16");
  command->add_option("--checkpoint", arguments->checkpoint, "checkpoint or run whose configuration is drawn")
      ->type_name("DIR");
  command->add_option("settings", arguments->dry.overrides, "key=value")->type_name("KEY=VALUE");
  add_choice(*command, "--depth", arguments->depth, {{"layer", Depth::layer}, {"op", Depth::op}},
             "a node for each layer or for each op");
  add_choice(*command, "--format", arguments->format,
             {{"dot", Format::dot}, {"json", Format::json}, {"svg", Format::svg}, {"tensorboard", Format::tensorboard}},
             "for Graphviz, as JSON, as a drawing, or as an event file");
  command->add_flag("--training", arguments->training, "also backward and the optimizer");
  command->add_option("--output", arguments->output, "file to write, with tensorboard a folder")->type_name("PATH");
  command->callback([arguments] { run_graph(*arguments); });
}

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

void DryOptions::declare(CLI::App& command, const std::string& tokens_help) {
  command.add_option("--config", config_file, "configuration of a run; no data is needed")->type_name("FILE");
  command.add_option("--tokens", tokens, tokens_help)->check(CLI::Range(1, 1 << 24));
  command.add_option("--vocabulary", vocabulary, "subwords of the model; default: of data.folder, without data 32000")
      ->check(CLI::Range(1, 1 << 24));
}

TrainConfig DryOptions::config() const {
  if (const std::string wrong = existing_file(config_file); !wrong.empty()) throw UsageFailure("--config: " + wrong);
  std::vector<std::string> settings = overrides;
  // A configuration needs no data here, but read_config() asks for the folder.
  const TrainConfig stored = read_stored_config(read_file(config_file), config_file);
  if (stored.data.folder.empty() && stored.task == Task::translation) settings.emplace_back("data.folder=absent");
  return read_config(read_file(config_file), config_file, settings);
}

DryBatch DryOptions::batch(const TrainConfig& config, std::int64_t usual_tokens) const {
  DryBatch batch{.vocabulary = vocabulary, .source_tokens = tokens > 0 ? tokens : usual_tokens};
  batch.target_tokens = batch.source_tokens;
  if (config.task == Task::gssm) batch.source_tokens = 0;
  if (batch.vocabulary > 0) return batch;
  if (config.task == Task::gssm && !config.gssm.nodes.empty()) {
    batch.vocabulary = make_gssm_graph(config.gssm).vocabulary();
    return batch;
  }
  const bool prepared = std::filesystem::exists(std::filesystem::path(config.data.folder) / Manifest::file_name);
  batch.vocabulary = prepared ? load_manifest(config.data.folder).vocabulary_size : default_vocabulary;
  return batch;
}

std::int64_t micro_batch_tokens(const TrainConfig& config) {
  const std::int64_t limit = config.data.micro_batch_tokens;
  return limit > 0 ? std::min(limit, config.target_tokens_per_update()) : config.target_tokens_per_update();
}

void write_output(const std::string& text, const std::string& file) {
  if (file.empty()) {
    fmt::print("{}", text);
  } else {
    write_file_atomically(file, text);
  }
}

}  // namespace babelring
