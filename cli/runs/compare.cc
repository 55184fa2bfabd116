#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <boost/json/array.hpp>
#include <boost/json/object.hpp>
#include <memory>
#include <string>
#include <vector>

#include "cli/runs/run_commands.h"
#include "cli/runs/table.h"

namespace babelring {
namespace {

/// A row for each run, with its best validation if it has one.
void print_best(const std::vector<json::object>& runs, const Screen& screen) {
  Table table({{.title = "RUN", .importance = 100, .shrinks = true},
               {.title = "BEST AT", .right = true, .importance = 90},
               {.title = "LOSS", .right = true, .importance = 80},
               {.title = "BLEU", .right = true, .importance = 100},
               {.title = "CHRF2", .right = true, .importance = 70}});
  for (const json::object& run : runs) {
    const json::object* found = get_object(run, "best");
    const json::object best = found == nullptr ? json::object() : *found;
    table.add({{text_of(run, "name")},
               {grouped_text(get_number(best, "update"))},
               {fixed_text(get_number(best, "loss"), 4)},
               {fixed_text(get_number(best, "sacrebleu"), 2)},
               {fixed_text(get_number(best, "chrf"), 2)}});
  }
  table.print(screen);
}

/// Prints the best validations of runs, and how the further ones differ from the first. With `as_json`: the answer of
/// the server alone.
void compare_runs(ApiClient& api, const std::vector<std::string>& named, bool as_json, const Screen& screen) {
  std::vector<json::object> runs;
  std::string others;
  for (const std::string& name : named) {
    runs.push_back(find_run(api, name));
    if (runs.size() > 1) others += (others.empty() ? "" : ",") + text_of(runs.back(), "id");
  }
  const json::object answer =
      api.get(fmt::format("/runs/{}/comparison?with={}", text_of(runs.front(), "id"), percent_encoded(others)));
  if (as_json) {
    screen.out << to_text(answer) << '\n';
    return;
  }
  print_best(runs, screen);
  const json::value* items = answer.if_contains("items");
  if (items == nullptr || !items->is_array()) return;
  for (const json::value& value : items->get_array()) {
    const json::object* item = value.if_object();
    if (item == nullptr) continue;
    const auto same = [&](const json::object& run) { return text_of(run, "id") == text_of(*item, "run"); };
    const auto run = std::find_if(runs.begin(), runs.end(), same);
    screen.out << (run == runs.end() ? text_of(*item, "run") : text_of(*run, "name")) << ": " << text_of(*item, "text")
               << '\n';
  }
}

}  // namespace

void add_run_compare(CLI::App& run) {
  CLI::App* command = run.add_subcommand(
      "compare",
      "Compares the best validations of runs with that of the first, by BLEU and chrF, with p-values of the paired "
      "bootstrap");
  struct Arguments {
    ServerChoice server;
    std::vector<std::string> runs;
  };
  const auto arguments = std::make_shared<Arguments>();
  command
      ->add_option("runs", arguments->runs,
                   "the baseline and the runs to compare with it, each by id, name or a unique prefix of either")
      ->required()
      ->expected(2, 21);
  arguments->server.declare(*command);
  command->callback([arguments] {
    ApiClient api(arguments->server.access());
    compare_runs(api, arguments->runs, arguments->server.as_json, Screen::of_stdout());
  });
}

}  // namespace babelring
