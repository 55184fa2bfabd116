#include <fmt/format.h>
#include <spdlog/spdlog.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <cmath>
#include <cstdio>
#include <filesystem>
#include <functional>
#include <limits>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "base/failure.h"
#include "base/files.h"
#include "base/json.h"
#include "base/log.h"
#include "base/options/usage.h"
#include "base/text.h"
#include "cli/commands.h"
#include "cli/model_options.h"
#include "cli/report_evaluation.h"
#include "cli/runs/screen.h"
#include "cli/runs/table.h"
#include "insight/plot.h"
#include "nmt/checkpoint/checkpoint.h"
#include "nmt/metrics/bleu.h"
#include "nmt/metrics/chrf.h"

namespace babelring {

namespace {

enum class ScoreKind { bleu, chrf, loss };

const Choices<ScoreKind>& score_kinds() {
  static const Choices<ScoreKind> words = {
      {"bleu", ScoreKind::bleu}, {"chrf", ScoreKind::chrf}, {"loss", ScoreKind::loss}};
  return words;
}

struct InterpolateArguments {
  ModelOptions model;
  std::string base, tuned, alphas = "0:1:0.1", sets, output, svg;
  ScoreKind by = ScoreKind::bleu;
  double keep = 0;
  std::int64_t max_sentences = 0;
  bool as_json = false;
  CLI::Option *keep_given = nullptr, *beam = nullptr, *length_penalty = nullptr;
};

/// Scores of the weights of one alpha on one set. BLEU and chrF are NaN if nothing was translated.
struct AlphaScores {
  double loss = 0, nll = 0, bleu = 0, chrf = 0;

  /// Larger is better.
  double score(ScoreKind kind) const { return kind == ScoreKind::bleu ? bleu : kind == ScoreKind::chrf ? chrf : -loss; }
};

struct AlphaPoint {
  double alpha = 0;
  std::vector<AlphaScores> scores;  // by set
};

/// A set with its name, and the tokenizer of its BLEU.
struct NamedSet {
  EvaluationSet set;
  Tokenizer tokenizer = Tokenizer::none;
};

/// FROM, FROM + STEP, … up to TO, of "FROM:TO:STEP".
std::vector<double> parse_alphas(const std::string& text) {
  constexpr double max_points = 101, grid = 1e12;  // numbers are rounded to 12 decimals, so that 3 · 0.1 is 0.3
  const std::size_t first = text.find(':'), second = text.find(':', first + 1);
  if (first != std::string::npos && second != std::string::npos) {
    const auto from = parse_decimal<double>(text.substr(0, first));
    const auto to = parse_decimal<double>(text.substr(first + 1, second - first - 1));
    const auto step = parse_decimal<double>(text.substr(second + 1));
    if (from && to && step && *from >= 0 && *from <= *to && *to <= 1 && *step > 0) {
      const double steps = std::floor((*to - *from) / *step + 1e-9);
      std::vector<double> alphas;
      for (double i = 0; i <= steps && steps < max_points; ++i) {
        alphas.push_back(std::min(*to, std::round((*from + i * *step) * grid) / grid));
      }
      if (!alphas.empty()) return alphas;
    }
  }
  throw UsageFailure(
      fmt::format("--alpha: expected FROM:TO:STEP with 0 <= FROM <= TO <= 1, STEP above 0 and at most {} values, found "
                  "'{}'",
                  max_points, printable(text)));
}

std::vector<NamedSet> open_sets(const InterpolateArguments& arguments, const LoadedModel& loaded) {
  std::vector<NamedSet> opened;
  for (const OtherSet& chosen : chosen_sets(arguments.sets, loaded.config, "--on")) {
    EvaluationSet set = named_set(chosen, *loaded.vocabulary);
    const auto limit = static_cast<std::size_t>(arguments.max_sentences);
    if (limit > 0 && limit < set.references.size()) set.references.resize(limit);
    if (set.references.empty()) fail("interpolate: {} has no sentences", set.name);
    const Tokenizer tokenizer = resolved(loaded.config.validation.tokenizer, set.references);
    opened.push_back({std::move(set), tokenizer});
  }
  return opened;
}

/// The search of TUNED's validations unless given, so that alpha 1 has their scores.
TranslateOptions search_of_run(const InterpolateArguments& arguments, const LoadedModel& loaded) {
  TranslateOptions search = arguments.model.translate_with(loaded);
  const ValidationConfig& validation = loaded.config.validation;
  if (arguments.beam->count() == 0) search.beam.beam = validation.beam;
  if (arguments.length_penalty->count() == 0) search.beam.length_penalty = validation.length_penalty;
  return search;
}

/// Gives the model the weights between two checkpoints.
void set_weights(const TensorFiles& base, const TensorFiles& tuned, double alpha, Model& model, Backend& backend) {
  std::vector<float> values;
  for (const Parameter& parameter : model.parameters().all()) {
    values.resize(static_cast<std::size_t>(parameter.shape.elements()));
    interpolate(base.tensor(parameter.name, parameter.shape).as<float>(),
                tuned.tensor(parameter.name, parameter.shape).as<float>(), alpha, values);
    backend.upload(values.data(), parameter.master);
  }
  model.refresh_compute_copies(backend);
}

AlphaScores scores_on(const NamedSet& named, const LoadedModel& loaded, const TranslateOptions* search,
                      Backend& backend) {
  constexpr double none = std::numeric_limits<double>::quiet_NaN();
  const Bleu bleu({.tokenizer = named.tokenizer});
  const SetScores scores = score_set(loaded, named.set, bleu, search, backend);
  const LossSums& sums = scores.losses;
  AlphaScores result{.loss = sums.loss / sums.tokens, .nll = sums.nll / sums.tokens, .bleu = none, .chrf = none};
  if (search == nullptr) return result;
  result.bleu = bleu.corpus(scores.hypotheses, {named.set.references}).score;
  result.chrf = Chrf().corpus(scores.hypotheses, {named.set.references});
  return result;
}

std::vector<AlphaPoint> score_all(const InterpolateArguments& arguments, const std::vector<double>& alphas,
                                  const std::vector<NamedSet>& sets, const TensorFiles& base, const LoadedModel& loaded,
                                  Backend& backend) {
  const TensorFiles tuned = loaded.checkpoint.weights();
  const TranslateOptions search = search_of_run(arguments, loaded);
  std::vector<AlphaPoint> points;
  for (const double alpha : alphas) {
    set_weights(base, tuned, alpha, *loaded.model, backend);
    AlphaPoint& point = points.emplace_back(AlphaPoint{.alpha = alpha, .scores = {}});
    for (const NamedSet& set : sets) {
      point.scores.push_back(scores_on(set, loaded, arguments.by == ScoreKind::loss ? nullptr : &search, backend));
    }
    spdlog::info("alpha {:g}: {} of {} done", alpha, points.size(), alphas.size());
  }
  return points;
}

/// True if every set but the first has at least the fraction `keep` of its score in `base`.
bool keeps(const AlphaPoint& point, const AlphaPoint& base, ScoreKind by, double keep) {
  for (std::size_t set = 1; set < point.scores.size(); ++set) {
    const double score = point.scores[set].score(by), before = base.scores[set].score(by);
    if (by == ScoreKind::loss ? score * keep < before : score < keep * before) return false;  // losses are negative
  }
  return true;
}

/// The place of the chosen point: see the help of --keep. The first of equal ones.
std::size_t choose(const std::vector<AlphaPoint>& points, ScoreKind by, std::optional<double> keep) {
  std::size_t chosen = 0;
  double best = -std::numeric_limits<double>::infinity();
  for (std::size_t i = 0; i < points.size(); ++i) {
    if (keep && !keeps(points[i], points[0], by, *keep)) continue;
    double sum = 0;
    for (const AlphaScores& scores : points[i].scores) sum += scores.score(by);
    const double value = keep ? points[i].scores[0].score(by) : sum;
    if (!(value > best)) continue;
    best = value;
    chosen = i;
  }
  return chosen;
}

std::string words_of_score(ScoreKind by) {
  return by == ScoreKind::bleu ? "sacreBLEU" : by == ScoreKind::chrf ? "chrF2" : "loss";
}

json::value number_or_null(double number) {
  return std::isfinite(number) ? json::value(number) : json::value(nullptr);
}

/// The scores between two checkpoints, and the place of the chosen ones.
struct Interpolation {
  std::filesystem::path base, tuned;
  std::vector<NamedSet> sets;
  std::vector<AlphaPoint> points;
  std::size_t chosen = 0;
};

json::object to_json(const Interpolation& found, const InterpolateArguments& arguments) {
  json::array points, sets;
  for (const AlphaPoint& point : found.points) {
    json::object scores;
    for (std::size_t i = 0; i < found.sets.size(); ++i) {
      const AlphaScores& on_set = point.scores[i];
      scores[found.sets[i].set.name] = json::object{{"loss", on_set.loss},
                                                    {"nll", on_set.nll},
                                                    {"sacrebleu", number_or_null(on_set.bleu)},
                                                    {"chrf", number_or_null(on_set.chrf)}};
    }
    points.push_back(json::object{{"alpha", point.alpha}, {"sets", std::move(scores)}});
  }
  for (const auto& [set, tokenizer] : found.sets) {
    sets.push_back(json::object{{"name", set.name},
                                {"sentences", std::ssize(set.references)},
                                {"signature", Bleu({.tokenizer = tokenizer}).signature()}});
  }
  return {{"base", found.base.string()},
          {"tuned", found.tuned.string()},
          {"sets", std::move(sets)},
          {"points", std::move(points)},
          {"by", word_of(score_kinds(), arguments.by)},
          {"keep", arguments.keep_given->count() > 0 ? json::value(arguments.keep) : json::value(nullptr)},
          {"chosen", found.points[found.chosen].alpha},
          {"output", arguments.output}};
}

/// The score's place between the worst and the best of its set, 0 to 1.
double place_of(const Interpolation& found, std::size_t set, double score, ScoreKind by) {
  double low = score, high = score;
  for (const AlphaPoint& point : found.points) {
    low = std::min(low, point.scores[set].score(by));
    high = std::max(high, point.scores[set].score(by));
  }
  return high > low ? (score - low) / (high - low) : 1;
}

void print_table(const Interpolation& found, ScoreKind by) {
  constexpr int bar_width = 20;
  std::vector<Table::Column> columns = {{.title = "ALPHA", .right = true, .importance = 100}};
  for (const NamedSet& named : found.sets) {
    const std::string& name = named.set.name;
    columns.push_back({.title = name + " loss", .right = true, .importance = 80});
    columns.push_back({.title = name + " BLEU", .right = true, .importance = 90});
    columns.push_back({.title = name + " chrF2", .right = true, .importance = 70});
    columns.push_back({.title = "worst to best " + words_of_score(by), .importance = 60});
  }
  columns.push_back({.title = "", .importance = 100});
  Table table(std::move(columns));
  for (std::size_t i = 0; i < found.points.size(); ++i) {
    const AlphaPoint& point = found.points[i];
    std::vector<Table::Cell> row = {{fmt::format("{:g}", point.alpha)}};
    for (std::size_t set = 0; set < found.sets.size(); ++set) {
      const AlphaScores& scores = point.scores[set];
      row.push_back({fmt::format("{:.4f}", scores.loss)});
      row.push_back({std::isfinite(scores.bleu) ? fmt::format("{:.2f}", scores.bleu) : ""});
      row.push_back({std::isfinite(scores.chrf) ? fmt::format("{:.2f}", scores.chrf) : ""});
      row.push_back({bar_text(place_of(found, set, scores.score(by), by), bar_width)});
    }
    row.push_back({i == found.chosen ? "chosen" : ""});
    table.add(std::move(row));
  }
  table.print(Screen::of_stdout());
}

std::string rule_text(const Interpolation& found, const InterpolateArguments& arguments) {
  const std::string kind = words_of_score(arguments.by);
  const char* best = arguments.by == ScoreKind::loss ? "least" : "greatest";
  if (arguments.keep_given->count() == 0) return fmt::format("{} mean {} over all sets", best, kind);
  return fmt::format("{} {} on {} that keeps {:g} % of BASE's on every other set", best, kind,
                     found.sets.front().set.name, 100 * arguments.keep);
}

std::string curves(const Interpolation& found, const InterpolateArguments& arguments) {
  insight::Plot plot{
      .title = fmt::format("From {} to {}", arguments.base, arguments.tuned),
      .x_label = "alpha",
      .y_label = words_of_score(arguments.by),
      .note = fmt::format("chosen: alpha {:g}, the {}", found.points[found.chosen].alpha, rule_text(found, arguments))};
  for (const NamedSet& named : found.sets) plot.series.push_back({named.set.name, {}});
  for (const AlphaPoint& point : found.points) {
    plot.x.push_back(point.alpha);
    for (std::size_t set = 0; set < found.sets.size(); ++set) {
      plot.series[set].values.push_back(std::abs(point.scores[set].score(arguments.by)));
    }
  }
  return insight::svg_of(plot);
}

/// Both ends, checked against each other, and the scores between them.
Interpolation find_between(InterpolateArguments& arguments, const std::vector<double>& alphas) {
  if (arguments.model.precision == DType::int8) {
    throw UsageFailure(
        "interpolate: --precision is int8, expected f32 or bf16, in which weights between two are scored");
  }
  const std::unique_ptr<Backend> backend = arguments.model.make_backend();
  // Not `best`, which may come to mean another checkpoint meanwhile.
  const auto resolved_path = [](const std::string& given) {
    return std::filesystem::canonical(find_checkpoint(given));
  };
  arguments.model.checkpoint = resolved_path(arguments.tuned).string();
  const LoadedModel loaded = arguments.model.load_any(*backend);
  if (loaded.config.task != Task::translation) {
    throw UsageFailure(fmt::format("interpolate: {} holds {}, expected a model that translates", arguments.tuned,
                                   loaded.model->kind()));
  }
  const Checkpoint base = load_checkpoint(resolved_path(arguments.base), Verify::model).value();
  if (std::filesystem::equivalent(base.folder, loaded.checkpoint.folder)) {
    throw UsageFailure(fmt::format("interpolate: BASE and TUNED are both {}", base.folder.string()));
  }
  require_same_model("interpolate", base, loaded.checkpoint);
  const TensorFiles weights = base.weights();
  require_finite(weights);
  Interpolation found{.base = base.folder, .tuned = loaded.checkpoint.folder, .sets = open_sets(arguments, loaded)};
  if (arguments.keep_given->count() > 0 && (alphas.front() > 0 || found.sets.size() < 2)) {
    throw UsageFailure(fmt::format("--keep: needs alpha 0 and at least two sets, found alphas from {:g} and {}",
                                   alphas.front(), counted(static_cast<double>(found.sets.size()), "set")));
  }
  found.points = score_all(arguments, alphas, found.sets, weights, loaded, *backend);
  found.chosen = choose(found.points, arguments.by,
                        arguments.keep_given->count() > 0 ? std::optional(arguments.keep) : std::nullopt);
  return found;
}

void interpolate_models(InterpolateArguments& arguments) {
  const std::vector<double> alphas = parse_alphas(arguments.alphas);
  if (std::filesystem::exists(arguments.output)) {
    throw UsageFailure(fmt::format("interpolate: {} exists already", arguments.output));
  }
  if (const auto parent = named_folder(arguments.output).parent_path(); !std::filesystem::is_directory(parent)) {
    throw UsageFailure(fmt::format("interpolate: {}: no such folder", parent.string()));
  }
  std::optional<AtomicFile> svg;  // opened first, so that an invalid path fails before minutes of work
  if (!arguments.svg.empty()) svg.emplace(arguments.svg);
  const Interpolation found = find_between(arguments, alphas);
  const double alpha = found.points[found.chosen].alpha;
  const Checkpoint written = interpolate_checkpoints(found.base, found.tuned, alpha, arguments.output);
  if (svg) {
    svg->write(curves(found, arguments));
    svg->commit();
  }
  if (arguments.as_json) {
    fmt::print("{}\n", to_text(to_json(found, arguments)));
    return;
  }
  print_table(found, arguments.by);
  fmt::print("{}: alpha {:g}, the {}\n", written.folder.string(), alpha, rule_text(found, arguments));
}

}  // namespace

void add_interpolate(CLI::App& app) {
  CLI::App* command = app.add_subcommand(
      "interpolate", "Scores the weights between two checkpoints on several sets and writes the best as a checkpoint");
  const auto arguments = std::make_shared<InterpolateArguments>();
  arguments->model.search.split =
      SplitLines::long_lines;  // as in validations: held-out lines are like those of the training
  command
      ->add_option("base", arguments->base,
                   "checkpoint before the fine-tuning, or a run's folder to use its best or "
                   "else newest checkpoint")
      ->type_name("BASE")
      ->required();
  command
      ->add_option("tuned", arguments->tuned,
                   "checkpoint after it, likewise; the weights are (1 - alpha) BASE + alpha "
                   "TUNED")
      ->type_name("TUNED")
      ->required();
  command->add_option("--alpha", arguments->alphas, "FROM:TO:STEP, the values of alpha, from 0 to 1, at most 101")
      ->capture_default_str();
  command->add_option("--on", arguments->sets,
                      "sets to score, comma-separated: the name of a validation set of TUNED's run, or NAME=FOLDER, "
                      "NAME=FOLDER:SET (default valid) of a folder of `nmt prepare`, NAME=SOURCE:REFERENCE of two text "
                      "files; default: all validation sets of the run");
  add_choice(*command, "--by", arguments->by, score_kinds(),
             "score by which one is chosen; loss: nothing is translated");
  arguments->keep_given =
      command
          ->add_option("--keep", arguments->keep,
                       "choose the best score on the first set among those that keep this fraction of BASE's score on "
                       "every other set; without it the best mean score of all sets is chosen")
          ->check(CLI::Range(0.0, 1.0));
  command->add_option("--output", arguments->output, "folder of the new checkpoint; must not exist")->required();
  command->add_option("--svg", arguments->svg, "write a plot of the scores over alpha")->type_name("FILE");
  command->add_flag("--json", arguments->as_json, "print one JSON object instead of the table");
  command->add_option("--max-sentences", arguments->max_sentences, "use only the first N sentences of each set; 0: all")
      ->check(CLI::NonNegativeNumber)
      ->capture_default_str();
  arguments->model.declare(*command);
  arguments->model.declare_device(*command);
  command->remove_option(command->get_option("--checkpoint"));
  arguments->beam = command->get_option("--beam");
  arguments->length_penalty = command->get_option("--length-penalty");
  command->callback([arguments] { interpolate_models(*arguments); });
}

}  // namespace babelring
