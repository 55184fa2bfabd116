#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <boost/json/array.hpp>
#include <boost/json/object.hpp>
#include <filesystem>
#include <memory>
#include <string>

#include "base/json.h"
#include "base/log.h"
#include "base/records/records.h"
#include "cli/commands.h"
#include "cli/runs/table.h"
#include "cli/trace/dry_options.h"
#include "cli/trace/spooled_steps.h"
#include "lab/timeline/summary.h"

namespace babelring {
namespace {

struct TimelineArguments {
  std::filesystem::path file;
  bool as_json = false;
};

std::string percent(double part) {
  return fmt::format("{:.1f} %", part * 100);
}

/// "12.3 ms (4.5 %)"
std::string ms_and_percent(double ms, double total) {
  return fmt::format("{:.2f} ({})", ms, percent(total > 0 ? ms / total : 0));
}

void print_ranks(const TimelineSummary& summary, const Screen& screen) {
  Table table({{.title = "RANK", .importance = 100},
               {.title = "TOTAL ms", .right = true, .importance = 90},
               {.title = "COMPUTE", .right = true, .importance = 90},
               {.title = "EXPOSED COMMUNICATION", .right = true, .importance = 90},
               {.title = "HIDDEN", .right = true, .importance = 90},
               {.title = "OVERLAP", .right = true, .importance = 90},
               {.title = "WAITING FOR DATA", .right = true, .importance = 90},
               {.title = "OTHER", .right = true, .importance = 90}});
  for (const RankSplit& rank : summary.ranks) {
    table.add({{fmt::format("{} on {}", rank.rank, printable(rank.host))},
               {fmt::format("{:.2f}", rank.total_ms)},
               {ms_and_percent(rank.compute_ms, rank.total_ms)},
               {ms_and_percent(rank.exposed_ms, rank.total_ms)},
               {fmt::format("{:.2f}", rank.hidden_ms)},
               {rank.overlap ? percent(*rank.overlap) : "-"},
               {ms_and_percent(rank.data_ms, rank.total_ms)},
               {ms_and_percent(rank.other_ms, rank.total_ms)}});
  }
  table.print(screen);
}

void print_ops(const TimelineSummary& summary, const Screen& screen) {
  if (summary.ops.empty()) return;
  screen.out << fmt::format("\nLongest ops of all ranks; the peak is the fastest call, {:.1f} GFLOP/s\n",
                            summary.peak_gflop_per_s);
  Table table({{.title = "OP", .importance = 100},
               {.title = "LAYER", .importance = 95},
               {.title = "CALLS", .right = true, .importance = 90},
               {.title = "ms", .right = true, .importance = 90},
               {.title = "GFLOP/s", .right = true, .importance = 80},
               {.title = "OF PEAK", .right = true, .importance = 80},
               {.title = "SHAPES", .importance = 10, .shrinks = true}});
  for (const OpTotal& op : summary.ops) {
    table.add({{printable(op.name)},
               {op.layer.empty() ? "-" : printable(op.layer)},
               {std::to_string(op.calls)},
               {fmt::format("{:.2f}", op.ms)},
               {op.gflop_per_s ? fmt::format("{:.1f}", *op.gflop_per_s) : "-"},
               {op.share_of_peak ? percent(*op.share_of_peak) : "-"},
               {printable(op.shapes)}});
  }
  table.print(screen);
}

void print_text(const TraceFile& trace, const TimelineSummary& summary) {
  const Screen screen = Screen::of_stdout();
  screen.out << fmt::format("Updates {} to {} of run {}\n", trace.first_update, trace.first_update + trace.updates - 1,
                            printable(trace.run));
  print_ranks(summary, screen);
  print_ops(summary, screen);
  if (!summary.waiting.empty()) screen.out << "\n";
  for (const WaitedFor& one : summary.waiting) {
    screen.out << fmt::format("Update {}: the other ranks waited {:.2f} ms for rank {}\n", one.update, one.waited_ms,
                              one.rank);
  }
}

json::value number_or_null(const std::optional<double>& number) {
  return number ? json::value(*number) : json::value();
}

void print_json(const TraceFile& trace, const TimelineSummary& summary) {
  json::array ranks, ops, waiting;
  for (const RankSplit& rank : summary.ranks) {
    ranks.push_back(json::object{{"rank", rank.rank},
                                 {"host", rank.host},
                                 {"total_ms", rank.total_ms},
                                 {"compute_ms", rank.compute_ms},
                                 {"exposed_communication_ms", rank.exposed_ms},
                                 {"hidden_communication_ms", rank.hidden_ms},
                                 {"overlap", number_or_null(rank.overlap)},
                                 {"data_ms", rank.data_ms},
                                 {"other_ms", rank.other_ms}});
  }
  for (const OpTotal& op : summary.ops) {
    ops.push_back(json::object{{"op", op.name},
                               {"layer", op.layer},
                               {"shapes", op.shapes},
                               {"calls", op.calls},
                               {"ms", op.ms},
                               {"gflop_per_s", number_or_null(op.gflop_per_s)},
                               {"share_of_peak", number_or_null(op.share_of_peak)}});
  }
  for (const WaitedFor& one : summary.waiting) {
    waiting.push_back(json::object{{"update", one.update}, {"rank", one.rank}, {"waited_ms", one.waited_ms}});
  }
  fmt::print("{}\n", to_text(json::object{{"run", trace.run},
                                          {"first_update", trace.first_update},
                                          {"updates", trace.updates},
                                          {"ranks", ranks},
                                          {"ops", ops},
                                          {"peak_gflop_per_s", summary.peak_gflop_per_s},
                                          {"waiting", waiting}}));
}

void show_timeline(const TimelineArguments& arguments) {
  const bool is_run = std::filesystem::is_directory(arguments.file);
  const TraceFile trace = read_trace(is_run ? newest_trace(arguments.file) : arguments.file);
  const TimelineSummary summary = summarize(trace);
  if (arguments.as_json) return print_json(trace, summary);
  print_text(trace, summary);
}

}  // namespace

void add_trace_timeline(CLI::App& trace) {
  CLI::App* command = trace.add_subcommand("timeline",
                                           "Summarises the timeline of all ranks: where their time went, the longest "
                                           "ops, and which rank the others waited for");
  const auto arguments = std::make_shared<TimelineArguments>();
  command
      ->add_option("file", arguments->file,
                   "timeline (trace-update-N.json.gz), or the folder of a run for its newest one")
      ->required();
  command->add_flag("--json", arguments->as_json, "print JSON");
  command->callback([arguments] { show_timeline(*arguments); });
}

namespace {

namespace fs = std::filesystem;

struct LightArguments {
  fs::path run;
  int rank = 0;
};

json::object light_line(const StepRecord& step) {
  json::object line{{"step", step.update},
                    {"data_io_time", step.times.data / 1e3},
                    {"model_time", (step.times.step - step.times.data) / 1e3},
                    {"flops", step.flops}};
  if (step.times.step > 0) line["token_freq"] = static_cast<double>(step.target_tokens) / step.times.step * 1e3;
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

void add_trace(CLI::App& app) {
  CLI::App* command = app.add_subcommand("trace", "Shows what happens inside of updates");
  command->require_subcommand(1);
  add_trace_timeline(*command);
  add_trace_memory(*command);
  add_trace_graph(*command);
  add_trace_light(*command);
  add_trace_parameters(*command);
}

}  // namespace babelring
