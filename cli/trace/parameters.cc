#include "cli/trace/dry_options.h"

#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <boost/json/array.hpp>
#include <boost/json/object.hpp>
#include <iterator>
#include <memory>
#include <optional>
#include <vector>

#include "base/choices.h"
#include "base/failure.h"
#include "base/files.h"
#include "base/json.h"
#include "base/log.h"
#include "base/options/usage.h"
#include "base/text.h"
#include "cli/model_options.h"
#include "cli/runs/table.h"
#include "lab/parameters/units.h"
#include "lab/parameters/window_summary.h"

namespace babelring {
namespace {

json::object to_json(const UnitCount& unit) {
  return {{"name", unit.name},
          {"label", unit.label},
          {"rows", unit.rows},
          {"changed", unit.changed},
          {"changed_elements", unit.changed_elements},
          {"visible", unit.visible},
          {"untouched", unit.untouched},
          {"ratio", unit.ratio},
          {"max_ratio", unit.max_ratio}};
}

/// Print units of a window to standard output, in the order given.
void print_json(const ParameterWindow& window, const std::vector<UnitCount>& counts) {
  json::array items;
  for (const UnitCount& unit : counts) items.push_back(to_json(unit));
  fmt::print("{}\n", to_text(json::object{{"run", window.run},
                                          {"first_update", window.first_update},
                                          {"last_update", window.last_update},
                                          {"updates", window.updates},
                                          {"units", std::move(items)}}));
}

/// RFC 4180: quotes are doubled within quotes.
std::string quoted(const std::string& text) {
  std::string result = "\"";
  for (const char c : text) result += c == '"' ? "\"\"" : std::string(1, c);
  return result + '"';
}

void print_csv(const std::vector<UnitCount>& counts) {
  fmt::print("name,label,rows,changed,changed_elements,visible,untouched,ratio,max_ratio\n");
  for (const UnitCount& unit : counts) {
    fmt::print("{},{},{},{:.9g},{:.9g},{:.9g},{:.9g},{:.9g},{:.9g}\n", quoted(unit.name), quoted(unit.label), unit.rows,
               unit.changed, unit.changed_elements, unit.visible, unit.untouched, unit.ratio, unit.max_ratio);
  }
}

std::string percent_text(double fraction) {
  return fmt::format("{:.1f} %", 100 * fraction);
}

/// Prints two lines about the whole window first.
void print_table(const ParameterWindow& window, const std::vector<UnitCount>& counts) {
  const Screen screen = Screen::of_stdout();
  const RowFractions rows = fractions_of(window, 0, std::ssize(window.rows));
  screen.out << fmt::format("updates {} to {}, {} counted: {} rows of {} parameters\n", window.first_update,
                            window.last_update, window.updates, grouped(window.rows.size()), window.parameters.size());
  screen.out << fmt::format(
      "cold (changed in under 1 % of updates): {}; without a gradient: {}; lost in rounding: {}\n",
      percent_text(rows.cold), percent_text(rows.untouched),
      window.precision == "f32" ? "nothing, products read f32" : percent_text(rows.lost_in_rounding));
  Table table({{.title = "NAME", .importance = 100, .shrinks = true},
               {.title = "LABEL", .importance = 90},
               {.title = "ROWS", .right = true, .importance = 20},
               {.title = "CHANGED", .right = true, .importance = 80},
               {.title = "ELEMENTS", .right = true, .importance = 30},
               {.title = "VISIBLE", .right = true, .importance = 70},
               {.title = "UNTOUCHED", .right = true, .importance = 40},
               {.title = "RATIO", .right = true, .importance = 85},
               {.title = "MAX RATIO", .right = true, .importance = 50}});
  for (const UnitCount& unit : counts) {
    table.add({{unit.name},
               {printable(unit.label)},
               {grouped(unit.rows)},
               {percent_text(unit.changed)},
               {fmt::format("{:.1f}", unit.changed_elements)},
               {percent_text(unit.visible)},
               {percent_text(unit.untouched)},
               {fmt::format("{:.2e}", unit.ratio)},
               {fmt::format("{:.2e}", unit.max_ratio)}});
  }
  table.print(screen);
}

namespace fs = std::filesystem;

enum class Sort { ratio, changed, visible };

const Choices<ParameterUnit> units = {{"row", ParameterUnit::row},
                                      {"neuron", ParameterUnit::neuron},
                                      {"head", ParameterUnit::head},
                                      {"parameter", ParameterUnit::parameter}};
const Choices<Sort> sorts = {{"ratio", Sort::ratio}, {"changed", Sort::changed}, {"visible", Sort::visible}};

struct ParametersArguments {
  fs::path run;
  std::string unit = "parameter", sort = "ratio", log;
  std::int64_t update = 0;
  int top = 20;
  bool coldest = false, as_json = false, as_csv = false;
};

template <class Enum>
Enum value_of(const Choices<Enum>& choices, const std::string& word) {
  return std::find_if(choices.begin(), choices.end(), [&](const auto& choice) { return choice.first == word; })->second;
}

/// The newest window; the one before if the newest has less than half of its updates, as at the end of a training. Says
/// so.
fs::path newest_window(const std::vector<fs::path>& files) {
  if (files.size() < 2) return files.back();
  const ParameterWindow newest = read_window(files.back()), before = read_window(files[files.size() - 2]);
  if (2 * newest.updates >= before.updates) return files.back();
  fmt::print(stderr, "updates {} to {}, before the newest window, which has only {} (--update {} shows it)\n",
             before.first_update, before.last_update, counted(newest.updates, "update"), newest.last_update);
  return files[files.size() - 2];
}

/// The file of the window that ends with `update`; newest_window() for 0.
fs::path chosen_window(const fs::path& run, std::int64_t update) {
  const std::vector<fs::path> files = find_windows(run);
  if (update == 0) return newest_window(files);
  const auto found = std::find_if(files.begin(), files.end(),
                                  [&](const fs::path& file) { return file.stem() == window_name(update); });
  if (found != files.end()) return *found;
  fail("{}: no window ends with update {}; there are {} from {} to {}", run.string(), update, files.size(),
       files.front().stem().string(), files.back().stem().string());
}

/// The vocabulary of the run's newest or best checkpoint; none without a checkpoint.
std::optional<Vocabulary> find_vocabulary(const fs::path& run) {
  if (!is_run_folder(run)) return std::nullopt;
  const fs::path file = find_checkpoint(run) / "spm.model";
  return fs::exists(file) ? std::optional(Vocabulary::load(file)) : std::nullopt;
}

double key_of(const UnitCount& unit, Sort sort) {
  return sort == Sort::ratio ? unit.ratio : sort == Sort::changed ? unit.changed : unit.visible;
}

bool is_vector(const UnitCount& unit) {
  return unit.name.ends_with(".bias") || unit.name.ends_with(".gain");
}

std::vector<UnitCount> chosen_units(const ParametersArguments& arguments, const ParameterWindow& window) {
  const std::optional<Vocabulary> vocabulary = find_vocabulary(arguments.run);
  std::vector<UnitCount> counts =
      count_units(window, value_of(units, arguments.unit), vocabulary ? &*vocabulary : nullptr);
  const Sort sort = value_of(sorts, arguments.sort);
  // A vector's ratio says little: biases begin at 0.
  const bool vectors_last = sort == Sort::ratio && value_of(units, arguments.unit) == ParameterUnit::parameter;
  std::stable_sort(counts.begin(), counts.end(), [&](const UnitCount& a, const UnitCount& b) {
    if (vectors_last && is_vector(a) != is_vector(b)) return is_vector(b);
    return arguments.coldest ? key_of(a, sort) < key_of(b, sort) : key_of(a, sort) > key_of(b, sort);
  });
  counts.resize(std::min(counts.size(), static_cast<std::size_t>(arguments.top)));
  return counts;
}

/// A line for each window: unix_time, iteration: 0:count 1:count …, with the parameters' places in their order. A count
/// is that of the parameter's most often changed row.
void write_log(const fs::path& run, const fs::path& file) {
  std::string lines;
  for (const fs::path& window_file : find_windows(run)) {
    const ParameterWindow window = read_window(window_file);
    lines += fmt::format("{}, {}:", window.time_ms / 1000, window.last_update);
    for (std::size_t i = 0; i < window.parameters.size(); ++i) {
      const TracedParameter& parameter = window.parameters[i];
      const auto first = window.rows.begin() + parameter.first_row;
      const auto most = std::max_element(first, first + parameter.rows,
                                         [](const RowCount& a, const RowCount& b) { return a.changed < b.changed; });
      lines += fmt::format(" {}:{}", i, most->changed);
    }
    lines += '\n';
  }
  write_file_atomically(file, lines);
}

void show_parameters(const ParametersArguments& arguments) {
  if (!arguments.log.empty()) return write_log(arguments.run, arguments.log);
  const ParameterWindow window = read_window(chosen_window(arguments.run, arguments.update));
  const std::vector<UnitCount> counts = chosen_units(arguments, window);
  if (arguments.as_json) return print_json(window, counts);
  if (arguments.as_csv) return print_csv(counts);
  print_table(window, counts);
}

}  // namespace

void add_trace_parameters(CLI::App& trace) {
  CLI::App* command =
      trace.add_subcommand("parameters",
                           "Shows the parameters that the optimizer changes most or least; a run records them if "
                           "lab.parameters.window is set");
  const auto arguments = std::make_shared<ParametersArguments>();
  command->add_option("run", arguments->run, "folder of a run, such as runs/help")->required();
  command->add_option("--unit", arguments->unit, "what rows are grouped to")
      ->check(CLI::IsMember(words_of(units)))
      ->capture_default_str();
  command->add_option("--sort", arguments->sort, "counter to sort by, the largest first")
      ->check(CLI::IsMember(words_of(sorts)))
      ->capture_default_str();
  command->add_flag("--coldest", arguments->coldest, "sort the smallest first");
  command->add_option("--top", arguments->top, "number of lines")
      ->check(CLI::Range(1, 100000000))
      ->capture_default_str();
  command
      ->add_option("--update", arguments->update,
                   "last update of the window; default: the newest window, or the one before if that has more than "
                   "twice as many updates")
      ->check(positive_number);
  auto* json = command->add_flag("--json", arguments->as_json, "print JSON");
  auto* csv = command->add_flag("--csv", arguments->as_csv, "print CSV")->excludes(json);
  command
      ->add_option("--log", arguments->log,
                   "write a line for each window to FILE instead: unix_time, update: 0:count 1:count …")
      ->excludes(json)
      ->excludes(csv);
  command->callback([arguments] { show_parameters(*arguments); });
}

}  // namespace babelring
