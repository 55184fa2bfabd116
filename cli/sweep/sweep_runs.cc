#include "cli/sweep/sweep_runs.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/file.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <array>
#include <boost/json/object.hpp>
#include <cerrno>
#include <cmath>
#include <optional>
#include <sstream>
#include <string_view>
#include <vector>

#include "base/failure.h"
#include "base/files.h"
#include "base/json.h"
#include "base/log.h"
#include "base/options/usage.h"
#include "base/records/records.h"
#include "cli/trace/spooled_steps.h"

namespace babelring {

void SweepGridChoice::declare(CLI::App& command) {
  command.add_option("grid", file, "file with name, base, ranks, set, grid and zip (YAML)")
      ->required()
      ->check(existing_file);
  command.add_flag("--strict", strict, "refuse a grid with invalid cells instead of leaving them out");
}

void add_sweep(CLI::App& app) {
  CLI::App* sweep = app.add_subcommand("sweep", "Trains every combination of settings, and compares the runs");
  sweep->require_subcommand(1);
  add_sweep_expand(*sweep);
  add_sweep_submit(*sweep);
  add_sweep_show(*sweep);
  add_sweep_stop(*sweep);
}

namespace {

namespace fs = std::filesystem;

std::vector<std::string> cells_of_line(const std::string& line) {
  std::vector<std::string> cells;
  std::istringstream stream(line);
  for (std::string cell; std::getline(stream, cell, '\t');) cells.push_back(cell);
  if (line.ends_with('\t')) cells.emplace_back();
  return cells;
}

/// Whether a worker trains in the run's folder: it holds a lock on run.lock.
bool is_held(const fs::path& run) {
  const FileDescriptor lock(open((run / "run.lock").c_str(), O_RDONLY | O_CLOEXEC));
  return lock && flock(lock.get(), LOCK_SH | LOCK_NB) != 0 && errno == EWOULDBLOCK;
}

/// State, progress and evaluations of a run, by the records of its rank 0.
class RunFigures {
 public:
  void add(const Record& record) {
    if (id_.empty()) id_ = record.header.run;
    if (const auto* step = std::get_if<StepRecord>(&record.body)) last_step_ = *step;
    if (const auto* eval = std::get_if<EvalRecord>(&record.body)) add(record, *eval);
    if (const auto* life = std::get_if<LifecycleRecord>(&record.body)) add(*life);
  }

  /// The members of GET /runs that sweep_results() reads, without labels.
  json::object item(const fs::path& run) const {
    const std::string state = !state_.empty() ? state_ : is_held(run) ? "running" : "lost";
    json::object item = {{"id", id_}, {"state", state}, {"detail", detail_}, {"update", last_step_.update}};
    if (last_step_.update > 0 && std::isfinite(last_step_.loss)) item["loss"] = last_step_.loss;
    if (last_step_.times.step > 0) {
      item["target_tokens_per_second"] =
          static_cast<double>(last_step_.update_target_tokens) * 1000 / last_step_.times.step;
    }
    if (newest_) item["last_eval"] = *newest_;
    if (best_) item["best"] = *best_;
    return item;
  }

 private:
  /// The set of a run's first evaluation is its validation set; the newest of equally good ones is the best.
  void add(const Record& record, const EvalRecord& eval) {
    if (set_.empty()) set_ = eval.set;
    if (eval.set != set_) return;
    json::object item = to_json(record);
    if (std::isfinite(eval.nll - eval.entropy)) item["excess"] = eval.nll - eval.entropy;
    newest_ = item;
    if (!std::isfinite(eval.loss)) return;
    const bool translates = std::isfinite(eval.sacrebleu), has_translated = std::isfinite(best_bleu_);
    const bool better = !best_                                       ? true
                        : translates != has_translated               ? translates
                        : translates && eval.sacrebleu != best_bleu_ ? eval.sacrebleu > best_bleu_
                                                                     : eval.loss <= best_loss_;
    if (!better) return;
    best_ = std::move(item);
    best_bleu_ = eval.sacrebleu;
    best_loss_ = eval.loss;
  }

  void add(const LifecycleRecord& life) {
    if (life.event == "started") state_.clear(), detail_.clear();
    if (life.event == "finished") state_ = "succeeded";
    if (life.event == "stopped" || life.event == "failed") state_ = life.event;
    if (!state_.empty()) detail_ = life.detail;
  }

  std::string id_, state_, detail_, set_;
  StepRecord last_step_;
  std::optional<json::object> newest_, best_;
  double best_bleu_ = NAN, best_loss_ = NAN;
};

json::object run_in(const fs::path& run) {
  std::error_code absent;
  if (!fs::exists(run / "spool", absent)) {
    return {{"id", ""}, {"state", "queued"}, {"detail", ""}, {"update", 0}};
  }
  RunFigures figures;
  for (const fs::path& spool : spools_of(run, 0)) {
    for_each_record(spool, [&figures](const Record& record) { figures.add(record); });
  }
  return figures.item(run);
}

}  // namespace

bool is_sweep_folder(const fs::path& folder) {
  std::error_code absent;
  return fs::is_regular_file(folder / sweep_task_table, absent);
}

std::map<std::string, json::object> folder_runs(const fs::path& folder) {
  const fs::path file = folder / sweep_task_table;
  std::istringstream table(read_file(file));
  std::map<std::string, json::object> runs;
  std::vector<std::string> titles;
  int number = 0;
  for (std::string line; std::getline(table, line);) {
    std::vector<std::string> cells = cells_of_line(line);
    ++number;
    if (number == 1) titles = cells;
    if (titles.size() < 2 || titles[0] != "task" || titles[1] != "cell" || cells.size() != titles.size()) {
      fail("{}:{}: expected the columns task, cell and the settings of `nmt sweep expand`", file.string(), number);
    }
    if (number == 1) continue;
    json::object run = run_in(folder / "runs" / cells[1]);
    json::object labels = {{cell_label, cells[1]}};
    for (std::size_t i = 2; i < cells.size(); ++i) labels[titles[i]] = cells[i];
    run["labels"] = std::move(labels);
    runs.emplace(cells[1], std::move(run));
  }
  if (runs.empty()) fail("{}: expected at least one task", file.string());
  return runs;
}

namespace {

constexpr std::size_t max_sweep_runs = 100'000;  // with those of cells that were started again
constexpr const char* run_fields =
    "id,name,state,detail,labels,update,max_updates,loss,target_tokens_per_second,last_eval,best";
constexpr std::array<std::string_view, 10> states = {"queued",    "launching", "running", "stopping", "restarting",
                                                     "suspended", "lost",      "failed",  "stopped",  "succeeded"};

}  // namespace

std::map<std::string, json::object> sweep_runs(ApiClient& api, const std::string& sweep) {
  const std::string label = percent_encoded(fmt::format("{}={}", sweep_label, sweep));
  std::map<std::string, json::object> newest;
  for (json::object& run : api.get_items(fmt::format("/runs?label={}&fields={}", label, run_fields), max_sweep_runs)) {
    const json::object* labels = get_object(run, "labels");
    const std::string cell = labels == nullptr ? std::string() : get_text(*labels, cell_label);
    if (!cell.empty()) newest.emplace(cell, std::move(run));  // the newest comes first
  }
  return newest;
}

std::map<std::string, json::object> require_sweep_runs(ApiClient& api, const std::string& sweep) {
  auto runs = sweep_runs(api, sweep);
  if (runs.empty()) {
    throw UsageFailure(fmt::format("sweep {}: no run on {} has the label {}={}", printable(sweep), api.access().address,
                                   sweep_label, printable(sweep)));
  }
  return runs;
}

std::size_t count_state(const std::map<std::string, json::object>& runs, std::string_view state) {
  return static_cast<std::size_t>(
      std::ranges::count_if(runs, [&](const auto& run) { return get_text(run.second, "state") == state; }));
}

std::string count_states(const std::map<std::string, json::object>& runs) {
  std::string text;
  for (const std::string_view state : states) {
    const std::size_t count = count_state(runs, state);
    if (count > 0) text += fmt::format("{}{} {}", text.empty() ? "" : ", ", count, state);
  }
  return text.empty() ? "no run" : text;
}

bool has_ended(const json::object& run) {
  const std::string state = get_text(run, "state");
  return state == "succeeded" || state == "failed" || state == "stopped";
}

}  // namespace babelring
