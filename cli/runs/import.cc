// `nmt run import`: runs of other programs, for comparison with ours.

#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <boost/json/object.hpp>
#include <chrono>
#include <cmath>
#include <limits>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "base/clock.h"
#include "base/failure.h"
#include "base/log.h"
#include "base/names.h"
#include "base/text.h"
#include "cli/runs/foreign_runs.h"
#include "cli/runs/run_commands.h"
#include "cli/runs/table.h"

namespace babelring {
namespace {

namespace fs = std::filesystem;

constexpr double nan = std::numeric_limits<double>::quiet_NaN();

struct ImportArguments {
  ServerChoice server;
  std::vector<fs::path> paths;
  std::vector<std::string> maps, labels;
  std::string name;
  bool dry_run = false;
};

/// A run to be sent.
struct ImportedRun {
  ForeignRun foreign;
  std::vector<Mapping> mappings;
  std::vector<Record> records;
  std::int64_t updates = 0, evaluations = 0;
};

/// Makes the records of a run from its series.
class RecordMaker {
 public:
  RecordMaker(const ForeignRun& run, const Series& series, std::int64_t default_time_ms)
      : run_(run), series_(series), default_time_ms_(default_time_ms) {
    for (const LoggedValue& value : run.values) {
      if (value.time_ms > 0) times_[value.step] = value.time_ms;
      from_zero_ = from_zero_ || value.step <= 0;
    }
    for (const char* quantity : {"nll", "loss"}) {  // the steps of losses, or without these of the other
      const auto values = series.find({"", quantity});
      if (values == series.end()) continue;
      training_steps_.clear();
      for (const auto& [step, value] : values->second) training_steps_.insert(step);
    }
  }

  ImportedRun make(std::vector<Mapping> mappings, const json::object& labels) {
    ImportedRun made{.foreign = run_, .mappings = std::move(mappings)};
    std::map<std::int64_t, std::vector<RecordBody>> by_step;
    add_steps(by_step);
    made.updates = static_cast<std::int64_t>(by_step.size());
    made.evaluations = add_evaluations(by_step);
    const std::int64_t first = by_step.begin()->first, last = by_step.rbegin()->first;
    LifecycleRecord started{.event = "started", .name = run_.name, .config = settings_text(), .world_size = 1};
    started.labels = labels;
    add(made, time_at(first), started);
    for (const Mapping& mapping : made.mappings) add(made, time_at(first), LogRecord{"info", line_of(mapping)});
    for (auto& [step, bodies] : by_step) {
      for (RecordBody& body : bodies) add(made, time_at(step), std::move(body));
    }
    add(made, time_at(last), LifecycleRecord{.event = "finished", .detail = "imported from " + run_.form});
    std::string content;
    for (const Record& record : made.records) content += to_text(to_json(record));
    const std::string id = make_id('r', time_at(first), content);
    for (Record& record : made.records) record.header.run = id;
    return made;
  }

  static std::string line_of(const Mapping& mapping) {
    const std::string note = mapping.note.empty() ? "" : fmt::format(" ({})", mapping.note);
    return fmt::format("imported {} as {}{}", mapping.metric, mapping.target ? mapping.target->text() : "nothing",
                       note);
  }

 private:
  std::int64_t update_of(std::int64_t step) const { return step + (from_zero_ ? 1 : 0); }
  std::int64_t time_at(std::int64_t step) const {
    const auto found = times_.find(step);
    return found == times_.end() ? default_time_ms_ : found->second;
  }
  /// The value of a quantity of the updates at a step, or the newest before it; NaN if there is none.
  double newest_at(const char* quantity, std::int64_t step) const {
    const auto values = series_.find({"", quantity});
    if (values == series_.end()) return nan;
    const auto after = values->second.upper_bound(step);
    return after == values->second.begin() ? nan : std::prev(after)->second;
  }

  /// The first loss has no loss before it: its update has the time and the tokens of the second's.
  void give_first_a_time(std::map<std::int64_t, std::vector<RecordBody>>& by_step) const {
    if (training_steps_.size() < 2) return;
    auto& first = std::get<StepRecord>(by_step.at(*training_steps_.begin()).front());
    const auto& second = std::get<StepRecord>(by_step.at(*std::next(training_steps_.begin())).front());
    first.times = second.times;
    first.target_tokens = first.update_target_tokens = second.target_tokens;
  }

  /// An update for each training loss. Its time is that since the loss before it, over the updates between them.
  void add_steps(std::map<std::int64_t, std::vector<RecordBody>>& by_step) const {
    std::optional<std::int64_t> before;
    for (const std::int64_t step : training_steps_) {
      StepRecord record{.update = update_of(step)};
      record.nll = newest_at("nll", step);
      record.loss = series_.contains({"", "loss"}) ? newest_at("loss", step) : record.nll;
      record.gradient_norm = newest_at("gradient_norm", step);
      record.learning_rate = newest_at("learning_rate", step);
      const double epoch = newest_at("epoch", step), rate = newest_at("tokens_per_second", step);
      record.epoch = std::isfinite(epoch) ? epoch : 0;
      if (before && times_.contains(step) && times_.contains(*before)) {
        record.times.step =
            std::max(0.0, static_cast<double>(time_at(step) - time_at(*before)) / static_cast<double>(step - *before));
        record.times.other = record.times.step;  // its parts are unknown
      }
      if (std::isfinite(rate)) record.target_tokens = std::llround(rate * record.times.step / 1000);
      record.update_target_tokens = record.target_tokens;  // there is one rank
      before = step;
      by_step[step].emplace_back(std::move(record));
    }
    give_first_a_time(by_step);
  }

  /// The scores of one evaluation, which W&B counts as several steps: no training loss is between them.
  struct Evaluation {
    std::int64_t first = 0, last = 0;
    std::map<std::string, double> values;  // by quantity
    double value(const char* quantity) const {
      const auto found = values.find(quantity);
      return found == values.end() ? nan : found->second;
    }
  };

  std::vector<Evaluation> evaluations_on(const std::string& set) const {
    std::map<std::int64_t, std::map<std::string, double>> by_step;
    for (const auto& [target, values] : series_) {
      if (target.set != set) continue;
      for (const auto& [step, value] : values) by_step[step][target.quantity] = value;
    }
    std::vector<Evaluation> evaluations;
    for (const auto& [step, values] : by_step) {
      const bool repeats = !evaluations.empty() && std::ranges::any_of(values, [&](const auto& each) {
        return evaluations.back().values.contains(each.first);
      });
      const bool trained = evaluations.empty() ||
                           training_steps_.upper_bound(evaluations.back().last) != training_steps_.upper_bound(step);
      if (repeats || trained) evaluations.push_back({.first = step});
      evaluations.back().last = step;
      evaluations.back().values.insert(values.begin(), values.end());
    }
    return evaluations;
  }

  /// Returns their number.
  std::int64_t add_evaluations(std::map<std::int64_t, std::vector<RecordBody>>& by_step) const {
    std::set<std::string> sets;
    for (const auto& [target, values] : series_) sets.insert(target.set);
    sets.erase("");
    std::int64_t count = 0;
    for (const std::string& set : sets) {
      const bool by_bleu = series_.contains({set, "sacrebleu"});
      double best = -std::numeric_limits<double>::infinity();
      for (const Evaluation& evaluation : evaluations_on(set)) {
        EvalRecord record{.update = update_of(evaluation.first), .set = set, .nll = evaluation.value("nll")};
        // The report knows evaluations by their duration, which is unknown, and none after the last update.
        record.seconds = 0.001;
        if (!training_steps_.empty()) record.update = std::min(record.update, update_of(*training_steps_.rbegin()));
        record.loss_unknown = !evaluation.values.contains("loss") && !evaluation.values.contains("nll");
        record.loss = evaluation.values.contains("loss") ? evaluation.value("loss") : record.nll;
        record.accuracy = evaluation.value("accuracy");
        record.sacrebleu = evaluation.value("sacrebleu");
        record.chrf = evaluation.value("chrf");
        const double score = by_bleu ? record.sacrebleu : -record.loss;
        record.best = set != "test" && score > best;  // false for NaN
        if (record.best) best = score;
        by_step[evaluation.first].emplace_back(std::move(record));
        ++count;
      }
    }
    return count;
  }

  /// The hyperparameters as YAML, which JSON strings are, and the validation set's name, by which the report knows it.
  std::string settings_text() const {
    std::string text, valid_set;
    for (const auto& [target, values] : series_) {
      const bool better = valid_set.empty() || valid_set == "test" || target.set == "valid";
      if (!target.set.empty() && better) valid_set = target.set;
    }
    if (!valid_set.empty() && !run_.settings.contains("data")) {
      text = fmt::format("data:\n  valid_set: {}\n", to_text(json::value(valid_set)));
    }
    for (const auto& [name, value] : run_.settings) {
      text += fmt::format("{}: {}\n", to_text(json::value(name)), to_text(json::value(value)));
    }
    return text;
  }

  void add(ImportedRun& made, std::int64_t time_ms, RecordBody body) const {
    const auto sequence = static_cast<std::int64_t>(made.records.size()) + 1;
    made.records.push_back(
        {{.run = {}, .sequence = sequence, .rank = 0, .host = "imported", .time_ms = time_ms}, std::move(body)});
  }

  const ForeignRun& run_;
  const Series& series_;
  std::int64_t default_time_ms_ = 0;
  std::map<std::int64_t, std::int64_t> times_;  // by step
  std::set<std::int64_t> training_steps_;       // with a training loss
  bool from_zero_ = false;                      // our first update is 1
};

/// Throws UsageFailure if there is no loss and no score.
ImportedRun import_run(const ForeignRun& run, const ImportArguments& arguments, const fs::path& path) {
  std::vector<Mapping> mappings = map_metrics(run, arguments.maps);
  const Series series = mapped_series(run, mappings);
  const bool useful = std::ranges::any_of(series, [](const auto& each) {
    return each.first.quantity == "loss" || each.first.quantity == "nll" || !each.first.set.empty();
  });
  if (!useful) {
    std::vector<std::string> names;
    for (const Mapping& mapping : mappings) names.push_back(printable(mapping.metric));
    throw UsageFailure(
        fmt::format("{}: {}: found the metrics {}, expected a loss or a score among them; --map "
                    "THEIRS=loss or THEIRS=valid.sacrebleu names it",
                    path.string(), printable(run.name), fmt::join(names, ", ")));
  }
  std::vector<std::string> labels = arguments.labels;
  labels.push_back("imported=" + run.form);
  const auto parsed = parse_labels(labels);
  if (!parsed) throw UsageFailure("--label: " + parsed.error());
  if (const Status good = check_name(run.name); !good) throw UsageFailure("--name: " + good.error());
  const auto written =
      fs::last_write_time(path).time_since_epoch() - fs::file_time_type::clock::now().time_since_epoch();
  const std::int64_t file_ms = wall_time_ms() + std::chrono::duration_cast<std::chrono::milliseconds>(written).count();
  return RecordMaker(run, series, file_ms).make(std::move(mappings), *parsed);
}

void print_mappings(const ImportedRun& run, const Screen& screen) {
  screen.out << fmt::format("{}: {}, {}, {}\n", printable(run.foreign.name), run.foreign.form,
                            counted(static_cast<double>(run.updates), "update"),
                            counted(static_cast<double>(run.evaluations), "evaluation"));
  Table table({{.title = "METRIC", .importance = 100},
               {.title = "VALUES", .right = true},
               {.title = "AS", .importance = 100},
               {.title = "NOTE", .shrinks = true}});
  for (const Mapping& mapping : run.mappings) {
    table.add({{printable(mapping.metric)},
               {grouped(static_cast<double>(mapping.values))},
               {mapping.target ? mapping.target->text() : "-"},
               {mapping.note}});
  }
  table.print(screen);
}

void import_runs(const ImportArguments& arguments) {
  std::vector<ImportedRun> runs;
  for (const fs::path& path : arguments.paths) {
    for (ForeignRun& run : read_foreign_runs(path)) {
      if (!arguments.name.empty()) run.name = arguments.name;
      runs.push_back(import_run(run, arguments, path));
    }
  }
  if (!arguments.name.empty() && runs.size() > 1) {
    throw UsageFailure(fmt::format("--name: found {} runs, expected one", runs.size()));
  }
  const Screen screen = Screen::of_stdout();
  json::array items;
  for (const ImportedRun& run : runs) {
    if (!arguments.server.as_json) print_mappings(run, screen);
    SyncedRun sent;
    if (!arguments.dry_run) {
      sent = send_records(run.records, {.server = arguments.server.access()});
      if (!arguments.server.as_json) {
        screen.out << (sent.sent == 0 ? fmt::format("the server has it already: run {}\n", sent.run)
                                      : fmt::format("sent as run {}\n", sent.run));
      }
    }
    items.push_back(json::object{{"run", sent.run},
                                 {"name", run.foreign.name},
                                 {"form", run.foreign.form},
                                 {"updates", run.updates},
                                 {"evaluations", run.evaluations},
                                 {"sent", sent.sent}});
  }
  if (arguments.server.as_json) screen.out << to_text(json::object{{"runs", std::move(items)}}) << '\n';
  screen.out.flush();
}

}  // namespace

void add_run_import(CLI::App& run) {
  CLI::App* command = run.add_subcommand(
      "import", "Sends runs that another program trained: from TensorBoard, MLflow, CSV, JSON, Marian, fairseq");
  const auto arguments = std::make_shared<ImportArguments>();
  command->add_option("paths", arguments->paths, std::string(foreign_forms))->required();
  command->add_option("--name", arguments->name, "name of the run; default: as in its files, or of the file");
  command
      ->add_option("--map", arguments->maps,
                   "THEIRS=OURS: their metric THEIRS is loss, nll, perplexity, learning_rate, gradient_norm, epoch or "
                   "tokens_per_second of updates, or SET.loss, SET.nll, SET.perplexity, SET.sacrebleu, SET.chrf or "
                   "SET.accuracy of evaluations; OURS*FACTOR: times a factor; nothing behind =: left out; may be "
                   "repeated. Default: as the names suggest")
      ->allow_extra_args(false);
  command->add_option("--label", arguments->labels, "key=value; may be repeated")->allow_extra_args(false);
  command->add_flag("--dry-run", arguments->dry_run, "only print what each metric is imported as");
  arguments->server.declare(*command);
  command->callback([arguments] { import_runs(*arguments); });
}

}  // namespace babelring
