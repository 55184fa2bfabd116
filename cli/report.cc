#include "cli/commands.h"

#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <filesystem>
#include <memory>

#include "base/failure.h"
#include "base/files.h"
#include "base/json.h"
#include "base/options/usage.h"
#include "cli/runs/run_commands.h"
#include "insight/report/report.h"
#include "insight/report/spooled_history.h"

namespace babelring {
namespace {

struct ReportArguments {
  ServerChoice server;
  std::string run;
  std::filesystem::path run_folder, output;
  insight::ReportFormat format = insight::ReportFormat::html;
};

std::string report_of_server(const ReportArguments& arguments) {
  ApiClient api(arguments.server.access());
  const json::object run = find_run(api, arguments.run);
  return api.get_text(fmt::format("/runs/{}/report?format={}", get_text(run, "id"),
                                  word_of(insight::report_formats(), arguments.format)));
}

std::string report_of_folder(const std::filesystem::path& folder, insight::ReportFormat format) {
  return insight::render(insight::make_report(insight::read_spooled_history(folder)), format);
}

void write_report(const ReportArguments& arguments) {
  if (arguments.run.empty() == arguments.run_folder.empty()) {
    throw UsageFailure("expected a run of the server, or --run-dir with the folder of a run");
  }
  const std::string text =
      arguments.run.empty() ? report_of_folder(arguments.run_folder, arguments.format) : report_of_server(arguments);
  if (arguments.output.empty()) {
    fmt::print("{}", text);
  } else {
    write_file_atomically(arguments.output, text);
  }
}

}  // namespace

void add_report(CLI::App& app) {
  CLI::App* command = app.add_subcommand(
      "report", "Answers twelve questions about a run: how long, trained to the end, overfitting, bottleneck, …");
  const auto arguments = std::make_shared<ReportArguments>();
  ReportArguments& a = *arguments;
  command->add_option("run", a.run, "run on the server: id, name or a unique prefix of either");
  command->add_option("--run-dir", a.run_folder, "folder of a run; its spools are read instead of the server")
      ->type_name("DIR");
  add_choice(*command, "--format", a.format, insight::report_formats(), "form of the report");
  command->add_option("--output", a.output, "file to write; default: standard output")->type_name("FILE");
  a.server.declare_access(*command);
  command->callback([arguments] { write_report(*arguments); });
}

}  // namespace babelring
