#include "cli/runs/foreign_runs.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <boost/json/array.hpp>
#include <boost/json/object.hpp>
#include <cmath>
#include <cstdio>
#include <ctime>
#include <optional>
#include <set>
#include <string_view>
#include <utility>

#include "base/csv.h"
#include "base/failure.h"
#include "base/files.h"
#include "base/json.h"
#include "base/log.h"
#include "base/records/event_file.h"
#include "base/text.h"

namespace babelring {
namespace {

namespace fs = std::filesystem;

/// Where programs write the step, the likeliest first: beside Lightning's global step, W&B's own counts its log calls.
constexpr std::array<std::string_view, 11> step_names = {
    "trainer/global_step", "global_step", "num_updates", "updates", "update", "_step", "step", "steps",
    "iteration",           "iter",        "up"};
constexpr std::array<std::string_view, 5> time_names = {"_timestamp", "timestamp", "wall time", "wall_time", "time_ms"};

std::string trimmed(std::string_view text) {
  const std::size_t begin = text.find_first_not_of(" \t\r\n"), end = text.find_last_not_of(" \t\r\n");
  return begin == std::string_view::npos ? "" : std::string(text.substr(begin, end - begin + 1));
}

/// The number in a text, which may be "nan", "inf" or in thousands: "64,000".
std::optional<double> number_in(std::string_view text) {
  std::string digits = trimmed(text);
  if (digits.find_first_not_of("0123456789,.") == std::string::npos) std::erase(digits, ',');
  if (digits.starts_with('+')) digits.erase(0, 1);
  return parse_number<double>(digits);
}

constexpr double max_step = 9007199254740992;  // 2^53: a double has all integers up to there

/// A step that another program wrote as a number; nothing if it is none.
std::optional<std::int64_t> step_in(std::optional<double> number) {
  if (!number || !(*number >= 0 && *number <= max_step) || *number != std::floor(*number)) return std::nullopt;
  return static_cast<std::int64_t>(*number);
}

/// Seconds or milliseconds since 1970, in ms; 0 (unknown) if it is no such time.
std::int64_t time_in_ms(double time) {
  constexpr double earliest_ms = 1e11, latest_ms = 1e14;  // 1973 in ms or the year 5138 in seconds; 5138 in ms
  if (!(time >= 0 && time < latest_ms)) return 0;
  return static_cast<std::int64_t>(time >= earliest_ms ? time : time * 1000);
}

/// "2026-11-30 22:46:10" of the local clock, at the beginning of a text; 0 if there is none.
std::int64_t local_time_ms(std::string_view text) {
  std::tm time = {};
  const std::string begin(text.substr(0, 19));
  if (std::sscanf(begin.c_str(), "%d-%d-%d %d:%d:%d", &time.tm_year, &time.tm_mon, &time.tm_mday, &time.tm_hour,
                  &time.tm_min, &time.tm_sec) != 6) {
    return 0;
  }
  time.tm_year -= 1900;
  time.tm_mon -= 1;
  time.tm_isdst = -1;
  return std::int64_t{1000} * std::max<std::time_t>(0, std::mktime(&time));
}

std::vector<std::string_view> split(std::string_view text, std::string_view separator) {
  std::vector<std::string_view> parts;
  for (;;) {
    const std::size_t end = text.find(separator);
    parts.push_back(text.substr(0, end));
    if (end == std::string_view::npos) return parts;
    text.remove_prefix(end + separator.size());
  }
}

/// The first of the names that the texts, in lower case, contain; its place among them.
template <std::size_t size>
std::optional<std::size_t> find_name(const std::array<std::string_view, size>& names,
                                     const std::vector<std::string>& texts) {
  for (const std::string_view name : names) {
    const auto found = std::ranges::find_if(texts, [&](const std::string& text) { return lower(text) == name; });
    if (found != texts.end()) return static_cast<std::size_t>(found - texts.begin());
  }
  return std::nullopt;
}

/// Adds the numbers of a JSON object, which fairseq and W&B write as texts, too, but for its step and time. False if it
/// has no step.
bool add_row(const json::object& row, std::string_view prefix, std::int64_t time_ms, ForeignRun& run) {
  std::vector<std::string> names;
  std::vector<std::optional<double>> numbers;
  for (const auto& [name, value] : row) {
    std::string own(name);
    if (!prefix.empty() && own.starts_with(fmt::format("{}_", prefix))) own.erase(0, prefix.size() + 1);
    names.push_back(std::move(own));
    numbers.push_back(value.is_string()                       ? number_in(std::string_view(value.get_string()))
                      : value.is_number() && !value.is_bool() ? std::optional(value.to_number<double>())
                                                              : std::nullopt);
  }
  const auto step = find_name(step_names, names);
  const auto at = step ? step_in(numbers[*step]) : std::nullopt;
  if (!at) return false;
  const auto time = find_name(time_names, names);
  if (time && numbers[*time]) time_ms = time_in_ms(*numbers[*time]);
  for (std::size_t i = 0; i < names.size(); ++i) {
    if (i == step || i == time || !numbers[i]) continue;
    run.values.push_back({.metric = prefix.empty() ? names[i] : fmt::format("{}/{}", prefix, names[i]),
                          .step = *at,
                          .time_ms = time_ms,
                          .value = *numbers[i]});
  }
  return true;
}

/// Python writes NaN and Infinity, which are no JSON: as texts, which add_row() reads as numbers.
std::string with_quoted_numbers(std::string_view text) {
  std::string result;
  bool quoted = false;
  for (std::size_t i = 0; i < text.size(); ++i) {
    if (quoted && text[i] == '\\') {  // with what it escapes
      result += text.substr(i++, 2);
      continue;
    }
    if (text[i] == '"') quoted = !quoted;
    const std::string_view word = quoted                                    ? ""
                                  : text.substr(i).starts_with("NaN")       ? "NaN"
                                  : text.substr(i).starts_with("-Infinity") ? "-Infinity"
                                  : text.substr(i).starts_with("Infinity")  ? "Infinity"
                                                                            : "";
    result += word.empty() ? std::string(1, text[i]) : fmt::format("\"{}\"", word);
    if (!word.empty()) i += word.size() - 1;
  }
  return result;
}

/// The files below a folder, by name; none if there is no such folder.
std::vector<fs::path> files_below(const fs::path& folder) {
  std::vector<fs::path> files;
  if (!fs::is_directory(folder)) return files;
  for (const auto& entry : fs::recursive_directory_iterator(folder)) {
    if (entry.is_regular_file()) files.push_back(entry.path());
  }
  std::ranges::sort(files);
  return files;
}

ForeignRun read_event_files(const fs::path& path) {
  ForeignRun run{.form = "TensorBoard"};
  std::vector<fs::path> files = {path};
  if (fs::is_directory(path)) {
    files = files_below(path);
    std::erase_if(files, [](const fs::path& file) { return file.string().find(".tfevents.") == std::string::npos; });
  }
  for (const fs::path& file : files) {
    const fs::path folder = fs::is_directory(path) ? file.parent_path().lexically_relative(path) : "";
    for (EventScalar& scalar : read_event_scalars(file)) {
      if (!step_in(static_cast<double>(scalar.step))) {
        throw UsageFailure(fmt::format("{}: found step {} of {}, expected at least 0", file.string(), scalar.step,
                                       printable(scalar.tag)));
      }
      run.values.push_back({.metric = (folder == "." ? fs::path() : folder / "").string() + std::move(scalar.tag),
                            .step = scalar.step,
                            .time_ms = time_in_ms(scalar.seconds),
                            .value = scalar.value});
    }
  }
  return run;
}

/// `mlruns/EXPERIMENT/RUN`: metrics/KEY has lines "TIME VALUE STEP", params/KEY a text.
ForeignRun read_mlflow(const fs::path& folder) {
  ForeignRun run{.form = "MLflow"};
  for (const fs::path& file : files_below(folder / "metrics")) {
    const std::string content = read_file(file), metric = file.lexically_relative(folder / "metrics").string();
    std::size_t line = 0;
    for (const std::string_view text : split(content, "\n")) {
      ++line;
      const std::string words = trimmed(text);
      if (words.empty()) continue;
      const auto parts = split(words, " ");
      const auto time = number_in(parts[0]);
      const auto value = parts.size() == 3 ? number_in(parts[1]) : std::nullopt;
      const auto step = parts.size() == 3 ? step_in(number_in(parts[2])) : std::nullopt;
      if (!time || !value || !step) {
        throw UsageFailure(fmt::format("{}, line {}: found '{}', expected TIME VALUE STEP", file.string(), line,
                                       printable(text.substr(0, 80))));
      }
      run.values.push_back({metric, *step, time_in_ms(*time), *value});
    }
  }
  for (const fs::path& file : files_below(folder / "params")) {
    run.settings[file.lexically_relative(folder / "params").string()] = read_file(file);
  }
  const fs::path name = folder / "tags" / "mlflow.runName";
  if (fs::exists(name)) run.name = trimmed(read_file(name));
  return run;
}

/// trainer_state.json: "log_history" is an array of objects with "step".
ForeignRun read_trainer_state(const json::array& history, const fs::path& file) {
  ForeignRun run{.form = "Hugging Face's Trainer"};
  for (std::size_t i = 0; i < history.size(); ++i) {
    if (!history[i].is_object() || !add_row(history[i].get_object(), "", 0, run)) {
      throw UsageFailure(fmt::format("{}: log_history[{}]: expected an object with a step", file.string(), i));
    }
  }
  return run;
}

ForeignRun read_json_lines(std::string_view content, const fs::path& file) {
  ForeignRun run{.form = "JSON lines"};
  std::size_t line = 0;
  for (const std::string_view text : split(content, "\n")) {
    ++line;
    if (trimmed(text).empty()) continue;
    const auto row = parse_json(with_quoted_numbers(text));
    if (!row || !row->is_object() || !add_row(row->get_object(), "", 0, run)) {
      throw UsageFailure(fmt::format("{}, line {}: found {}, expected a JSON object with a step ({})", file.string(),
                                     line, row ? printable(text.substr(0, 80)) : row.error(),
                                     fmt::join(step_names, ", ")));
    }
  }
  return run;
}

/// Lines "2026-11-30 22:46:10 | INFO | train_inner | {…}". "train" has the means of epochs, and is left out beside
/// "train_inner", which has the updates.
ForeignRun read_fairseq(std::string_view content) {
  ForeignRun run{.form = "a log of fairseq"};
  for (const std::string_view line : split(content, "\n")) {
    const auto parts = split(line, " | ");
    if (parts.size() < 4 || !parts[3].starts_with('{')) continue;
    const auto row = parse_json(with_quoted_numbers(trimmed(parts[3])));
    if (row && row->is_object()) add_row(row->get_object(), parts[2], local_time_ms(line), run);
  }
  const auto of_updates = [](const LoggedValue& value) { return value.metric.starts_with("train_inner/"); };
  if (std::ranges::any_of(run.values, of_updates)) {
    std::erase_if(run.values, [](const LoggedValue& value) { return value.metric.starts_with("train/"); });
  }
  return run;
}

/// The parts of a line of Marian between " : ": "Ep. 1", "Up. 100", … , or of a validation "[valid] Ep. 1", "Up. 100",
/// "bleu", "25.3", "new best".
void add_marian_line(const std::vector<std::string_view>& parts, std::int64_t time_ms, ForeignRun& run) {
  const auto step = step_in(number_in(parts[1].substr(4)));
  if (!step) return;
  const auto add = [&](std::string metric, std::string_view number) {
    const auto value = number_in(number.substr(0, number.find(' ')));
    if (value) run.values.push_back({std::move(metric), *step, time_ms, *value});
  };
  if (parts[0].find("[valid]") != std::string_view::npos) {
    if (parts.size() > 3) add(fmt::format("valid/{}", parts[2]), parts[3]);
    return;
  }
  const std::array<std::pair<std::string_view, const char*>, 3> beginnings = {
      {{"Cost ", "loss"}, {"gNorm ", "gradient_norm"}, {"L.r. ", "learning_rate"}}};
  for (const std::string_view part : parts) {
    if (part.ends_with(" words/s")) add("words/s", part);
    for (const auto& [beginning, metric] : beginnings) {
      if (part.starts_with(beginning)) add(metric, part.substr(beginning.size()));
    }
  }
}

ForeignRun read_marian(std::string_view content) {
  ForeignRun run{.form = "a log of Marian"};
  for (const std::string_view line : split(content, "\n")) {
    const auto parts = split(line.substr(0, line.find_last_not_of(" \r") + 1), " : ");
    if (parts.size() < 3 || !parts[1].starts_with("Up. ")) continue;
    add_marian_line(parts, line.starts_with('[') ? local_time_ms(line.substr(1)) : 0, run);
  }
  return run;
}

std::vector<ForeignRun> read_csv(std::string_view content, const fs::path& file) {
  const std::string_view text = content.substr(std::min(content.find_first_not_of("\r\n"), content.size()));
  const std::string_view first = text.substr(0, text.find('\n'));
  const std::vector<std::string> names = CsvTable(file.string(), first).columns();
  const auto step = find_name(step_names, names), time = find_name(time_names, names);
  if (!step || names.size() < 2) {
    throw UsageFailure(
        fmt::format("{}: found '{}', expected {}", file.string(), printable(first.substr(0, 80)), foreign_forms));
  }
  const CsvTable table(file.string(), content);
  std::set<std::size_t> others = {*step};
  if (time) others.insert(*time);
  const std::vector<CsvColumn> columns = describe_columns(names, others, file);
  std::map<std::string, ForeignRun> runs;
  for (std::size_t row = 0; row < table.rows(); ++row) {
    const std::vector<std::string>& fields = table.fields(row);
    const auto at = step_in(number_in(fields[*step]));
    if (!at) {
      throw UsageFailure(fmt::format("{}: {}: found '{}', expected a step", table.place(row), names[*step],
                                     printable(fields[*step].substr(0, 40))));
    }
    const auto when = time ? number_in(fields[*time]) : std::nullopt;
    for (std::size_t i = 0; i < fields.size(); ++i) {
      const auto value = columns[i].metric.empty() ? std::nullopt : number_in(fields[i]);
      if (!value) continue;
      ForeignRun& run = runs[columns[i].run];
      run.values.push_back({columns[i].metric, *at, when ? time_in_ms(*when) : 0, *value});
    }
  }
  std::vector<ForeignRun> result;
  for (auto& [name, run] : runs) {
    run.form = "CSV";
    run.name = name;
    result.push_back(std::move(run));
  }
  return result;
}

std::vector<ForeignRun> read_text(const std::string& content, const fs::path& file) {
  if (content.starts_with("\xef\xbb\xbf")) return read_text(content.substr(3), file);  // a byte order mark
  const std::string_view begin = std::string_view(content).substr(0, std::size_t{1} << 20);
  if (trimmed(begin.substr(0, 64)).starts_with('{')) {
    const auto whole = parse_json(with_quoted_numbers(content));
    const json::value* history = whole && whole->is_object() ? whole->get_object().if_contains("log_history") : nullptr;
    if (history != nullptr && history->is_array()) return {read_trainer_state(history->get_array(), file)};
    return {read_json_lines(content, file)};
  }
  if (begin.find("Ep. ") != std::string_view::npos && begin.find(" : Up. ") != std::string_view::npos) {
    return {read_marian(content)};
  }
  if (begin.find(" | INFO | ") != std::string_view::npos) return {read_fairseq(content)};
  return read_csv(content, file);
}

/// A folder's name, or a file's without its extension; of files that every run has, the name of their folder.
std::string name_of(const fs::path& path) {
  fs::path whole = fs::absolute(path).lexically_normal();
  if (!whole.has_filename()) whole = whole.parent_path();
  const std::string name = whole.filename().string();
  if (name == "trainer_state.json" || name.find(".tfevents.") != std::string::npos) {
    return whole.parent_path().filename().string();
  }
  return fs::is_directory(whole) ? name : whole.stem().string();
}

std::vector<ForeignRun> read_folder(const fs::path& folder) {
  if (fs::is_directory(folder / "metrics") && fs::exists(folder / "meta.yaml")) return {read_mlflow(folder)};
  if (fs::exists(folder / "trainer_state.json")) return read_foreign_runs(folder / "trainer_state.json");
  ForeignRun run = read_event_files(folder);
  if (run.values.empty()) {
    throw UsageFailure(fmt::format("{}: found no file that is known, expected {}", folder.string(), foreign_forms));
  }
  return {std::move(run)};
}

}  // namespace

std::vector<ForeignRun> read_foreign_runs(const fs::path& path) {
  std::vector<ForeignRun> runs;
  if (fs::is_directory(path)) {
    runs = read_folder(path);
  } else {
    const std::string content = read_file(path);
    runs = begins_event_file(content) ? std::vector{read_event_files(path)} : read_text(content, path);
  }
  std::erase_if(runs, [](const ForeignRun& run) { return run.values.empty(); });
  if (runs.empty()) throw UsageFailure(fmt::format("{}: found no value of a metric", path.string()));
  for (ForeignRun& run : runs) {
    if (run.name.empty()) run.name = name_of(path);
  }
  return runs;
}

}  // namespace babelring
