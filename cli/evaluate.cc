#include "cli/commands.h"

#include <fmt/format.h>
#include <spdlog/spdlog.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <cmath>
#include <cstdio>
#include <memory>
#include <optional>

#include "base/files.h"
#include "base/json.h"
#include "base/log.h"
#include "base/options/usage.h"
#include "cli/gssm/evaluate_sequences.h"
#include "cli/model_options.h"
#include "cli/report_evaluation.h"
#include "cli/runs/run_commands.h"
#include "cli/score_texts.h"
#include "cli/watch_checkpoints.h"
#include "nmt/data/manifest.h"
#include "nmt/metrics/bleu.h"
#include "nmt/metrics/chrf.h"
#include "nmt/metrics/significance.h"

namespace babelring {

namespace {

struct EvaluateArguments {
  ModelOptions model;
  std::string data;
  std::string set;
  std::string source, reference;
  TokenizerChoice tokenizer;
  bool lowercase = false;
  std::int64_t max_sentences = 0;
  std::string output;
  bool as_json = false;
  CLI::Option* beam = nullptr;            // --beam
  CLI::Option* length_penalty = nullptr;  // --length-penalty
  CLI::Option* tokenize = nullptr;        // --tokenize
  CLI::Option* report = nullptr;          // given: the evaluation is added to a run
  std::string report_to;                  // the run; empty: the watched run
  std::string watched;                    // a run, each of whose checkpoints is evaluated; empty: none
  ServerChoice server;
};

/// The set of a folder: --set if given; for a watched run its validation set, otherwise the test set.
std::string set_of_folder(const EvaluateArguments& arguments, const TrainConfig& config) {
  if (!arguments.set.empty()) return arguments.set;
  if (arguments.watched.empty()) return "test";
  const std::string usual = config.task == Task::gssm ? "test" : "valid";
  return config.data.valid_set.empty() ? usual : config.data.valid_set;
}

/// The folder of a translation's sets: --data, else data.folder of the checkpoint.
std::string folder_of_sets(const EvaluateArguments& arguments, const TrainConfig& config) {
  if (!arguments.data.empty()) return arguments.data;
  if (std::filesystem::exists(std::filesystem::path(config.data.folder) / Manifest::file_name))
    return config.data.folder;
  throw UsageFailure(
      fmt::format("evaluate: data.folder of the checkpoint, {}, is not here; expected --data, or --source and "
                  "--reference",
                  printable(config.data.folder)));
}

EvaluationSet open_set(const EvaluateArguments& arguments, const LoadedModel& loaded) {
  const bool from_text = !arguments.source.empty() || !arguments.reference.empty();
  if ((from_text && !arguments.data.empty()) || arguments.source.empty() != arguments.reference.empty()) {
    throw UsageFailure("evaluate: expected either --data, or --source and --reference");
  }
  const Vocabulary& vocabulary = *loaded.vocabulary;
  EvaluationSet set = from_text ? text_set(arguments.source, arguments.reference, vocabulary)
                                : prepared_set(folder_of_sets(arguments, loaded.config),
                                               set_of_folder(arguments, loaded.config), vocabulary);
  const auto limit = static_cast<std::size_t>(arguments.max_sentences);
  if (limit > 0 && limit < set.references.size()) set.references.resize(limit);
  if (set.references.empty()) fail("evaluate: {} has no sentences", set.name);
  return set;
}

std::int64_t sentences_of(const EvaluationSet& set) {
  return std::ssize(set.references);
}

struct Scores {
  json::object figures;  // as printed with --json
  std::vector<std::string> hypotheses;
  std::vector<Resamples> resamples;  // by BLEU and chrF; empty unless the evaluation is reported
};

/// The search of the options. For a watched run it is that of the run's validations unless given, so that one chart can
/// show both.
TranslateOptions search_of(const EvaluateArguments& arguments, const LoadedModel& loaded) {
  TranslateOptions search = arguments.model.translate_with(loaded);
  if (arguments.watched.empty()) return search;
  const ValidationConfig& validation = loaded.config.validation;
  if (arguments.beam->count() == 0) search.beam.beam = validation.beam;
  if (arguments.length_penalty->count() == 0) search.beam.length_penalty = validation.length_penalty;
  return search;
}

/// The tokenizer is that of the options; for a watched run that of the run's validations unless given.
BleuOptions bleu_options(const EvaluateArguments& arguments, const TrainConfig& config, const EvaluationSet& set) {
  const bool of_run = !arguments.watched.empty() && arguments.tokenize->count() == 0;
  const TokenizerChoice choice =
      of_run ? TokenizerChoice{.tokenizer = config.validation.tokenizer} : arguments.tokenizer;
  return {.tokenizer = resolved(choice.tokenizer, set.references),
          .segmenter = choice.segmenter,
          .lowercase = arguments.lowercase};
}

/// By which the server compares the evaluation with the run's best validation.
std::vector<Resamples> resamples_by(const MetricOptions& options, const std::vector<std::string>& hypotheses,
                                    const std::vector<std::string>& references) {
  std::vector<Resamples> resamples;
  for (const MetricKind kind : {MetricKind::bleu, MetricKind::chrf}) {
    const std::unique_ptr<const Metric> metric = make_metric(kind, options);
    resamples.push_back(resamples_of(SentenceStatistics(*metric, hypotheses, {references}), references));
  }
  return resamples;
}

Scores evaluate(const EvaluateArguments& arguments, const LoadedModel& loaded, const EvaluationSet& set,
                Backend& backend) {
  std::optional<AtomicFile> output;  // opened first, so that an invalid path fails before minutes of work
  if (!arguments.output.empty()) output.emplace(arguments.output);
  const MetricOptions metric{.bleu = bleu_options(arguments, loaded.config, set),
                             .chrf = {.lowercase = arguments.lowercase}};
  const Bleu bleu(metric.bleu);
  const TranslateOptions search = search_of(arguments, loaded);
  SetScores scores = score_set(loaded, set, bleu, &search, backend);
  const std::vector<std::string>& hypotheses = scores.hypotheses;
  const LossSums& sums = scores.losses;
  if (output) {
    for (const std::string& hypothesis : hypotheses) output->write(hypothesis + "\n");
    output->commit();
  }
  const Chrf chrf(metric.chrf);
  const BleuScore score = bleu.corpus(hypotheses, {set.references});
  if (const std::string doubt = doubt_of_tokenizer(score.score, sums.correct / sums.tokens); !doubt.empty()) {
    spdlog::warn("{}: {} (--tokenize is {})", set.name, doubt, bleu.tokenizer_name());
  }
  json::object figures = {{"checkpoint", loaded.checkpoint.folder.string()},
                          {"update", loaded.checkpoint.update},
                          {"set", set.name},
                          {"sentences", sentences_of(set)},
                          {"target_tokens", static_cast<std::int64_t>(sums.tokens)},
                          {"loss", sums.loss / sums.tokens},
                          {"nll", sums.nll / sums.tokens},
                          {"perplexity", std::exp(sums.nll / sums.tokens)},
                          {"accuracy", sums.correct / sums.tokens},
                          {"teacher_forced_bleu", scores.teacher_forced_bleu},
                          {"sacrebleu", score.score},
                          {"bleu", score.text()},
                          {"signature", bleu.signature()},
                          {"chrf", chrf.corpus(hypotheses, {set.references})},
                          {"chrf_signature", chrf.signature()},
                          {"beam", search.beam.beam},
                          {"precision", name_of(arguments.model.precision)},
                          {"seconds", scores.seconds},
                          {"sentences_per_second", static_cast<double>(sentences_of(set)) / scores.seconds}};
  Scores all{std::move(figures), std::move(scores.hypotheses), {}};
  if (!arguments.report_to.empty()) all.resamples = resamples_by(metric, all.hypotheses, set.references);
  return all;
}

void print_report(const json::object& report) {
  const auto number = [&](const char* key) { return report.at(key).to_number<double>(); };
  const auto text = [&](const char* key) { return std::string(report.at(key).as_string()); };
  fmt::print("checkpoint  {} (update {})\n", text("checkpoint"), number("update"));
  fmt::print("set         {}: {} sentences, {} target tokens\n", text("set"), number("sentences"),
             number("target_tokens"));
  fmt::print("loss        {:.4f} label-smoothed, {:.4f} nats a token (perplexity {:.2f}), accuracy {:.2f} %\n",
             number("loss"), number("nll"), number("perplexity"), 100 * number("accuracy"));
  fmt::print(
      "            teacher-forced BLEU {:.2f}: each piece predicted from the reference prefix, without translation\n",
      number("teacher_forced_bleu"));
  fmt::print("{}\n            {}\n", text("bleu"), text("signature"));
  fmt::print("chrF2 = {:.2f}\n            {}\n", number("chrf"), text("chrf_signature"));
  fmt::print("speed       {:.1f} sentences/s (beam {}, {})\n", number("sentences_per_second"), number("beam"),
             text("precision"));
}

/// Evaluates a language model of generated sequences.
void run_sequences(const EvaluateArguments& arguments, const LoadedModel& loaded, Backend& backend) {
  if (!arguments.source.empty() || !arguments.reference.empty() || !arguments.output.empty()) {
    throw UsageFailure(
        "evaluate: the checkpoint holds a language model: --source, --reference and --output are for translations");
  }
  std::optional<EvaluationReport> report;
  if (!arguments.report_to.empty()) {
    report.emplace(arguments.server.access(), arguments.report_to);
    report->compare(loaded.checkpoint.state);
  }
  const json::object figures = evaluate_sequences(
      loaded,
      {.data = arguments.data, .set = set_of_folder(arguments, loaded.config), .sequences = arguments.max_sentences},
      backend);
  if (arguments.as_json) {
    fmt::print("{}\n", to_text(figures));
  } else {
    print_sequence_report(figures);
  }
  std::fflush(stdout);  // print the figures even if the server is unreachable
  if (report) report->send(figures, {});
}

void run_evaluate(const EvaluateArguments& arguments) {
  const std::unique_ptr<Backend> backend = arguments.model.make_backend();
  const LoadedModel loaded = arguments.model.load_any(*backend);
  if (loaded.config.task == Task::gssm) return run_sequences(arguments, loaded, *backend);
  const EvaluationSet set = open_set(arguments, loaded);
  std::optional<EvaluationReport> report;
  if (!arguments.report_to.empty()) {
    report.emplace(arguments.server.access(), arguments.report_to);
    report->compare(loaded.checkpoint.state);
  }
  const Scores scores = evaluate(arguments, loaded, set, *backend);
  if (arguments.as_json) {
    fmt::print("{}\n", to_text(scores.figures));
  } else {
    print_report(scores.figures);
  }
  std::fflush(stdout);  // print the figures even if the server is unreachable
  if (report) report->send(scores.figures, samples_of(set, scores.hypotheses, *loaded.vocabulary), scores.resamples);
}

/// The name under which the evaluations of a run are reported.
std::string reported_set(const EvaluateArguments& arguments, const TrainConfig& config) {
  if (!arguments.source.empty()) return std::filesystem::path(arguments.source).filename().string();
  if (config.task == Task::gssm && arguments.data.empty()) return generated_set(config);
  return set_of_folder(arguments, config);
}

void evaluate_all(EvaluateArguments arguments) {
  const bool report = arguments.report->count() > 0;
  if (arguments.watched.empty() == arguments.model.checkpoint.empty()) {
    throw UsageFailure("evaluate: expected either --checkpoint or --watch");
  }
  if (arguments.watched.empty()) {
    if (report && arguments.report_to.empty()) throw UsageFailure("--report: expected a run");
    return run_evaluate(arguments);
  }
  if (!arguments.output.empty()) throw UsageFailure("--output: is for a single checkpoint, without --watch");
  if (report && arguments.report_to.empty()) arguments.report_to = arguments.watched;
  const auto set_of = [&arguments](const TrainConfig& config) { return reported_set(arguments, config); };
  watch_checkpoints({arguments.server.access(), arguments.watched, set_of},
                    [&arguments](const std::filesystem::path& checkpoint) {
                      arguments.model.checkpoint = checkpoint.string();
                      run_evaluate(arguments);
                    });
}

}  // namespace

void add_evaluate(CLI::App& app) {
  CLI::App* command = app.add_subcommand("evaluate", "Computes loss, BLEU and chrF of a checkpoint on a held-out set");
  const auto arguments = std::make_shared<EvaluateArguments>();
  arguments->model.search.split =
      SplitLines::long_lines;  // as in validations: held-out lines are like those of the training
  arguments->model.declare(*command);
  arguments->model.declare_device(*command);
  command->get_option("--checkpoint")->required(false);
  arguments->beam = command->get_option("--beam");
  arguments->length_penalty = command->get_option("--length-penalty");
  command->add_option(
      "--data", arguments->data,
      "folder written by `nmt prepare`, by default the one that the checkpoint was trained on; for a language model by "
      "`nmt gssm data`, or none to generate sequences");
  command->add_option("--set", arguments->set,
                      "held-out set in that folder; default: test, with --watch the run's data.valid_set");
  command->add_option("--source", arguments->source, "source text to use instead of --data, plain or compressed");
  command->add_option("--reference", arguments->reference, "reference translation of --source, line by line");
  add_tokenize(*command, arguments->tokenizer);
  arguments->tokenize = command->get_option("--tokenize");
  command->add_flag("--lowercase", arguments->lowercase, "ignore case in scores");
  command
      ->add_option("--max-sentences", arguments->max_sentences, "use only the first N sentences or sequences; 0: all")
      ->check(CLI::NonNegativeNumber)
      ->capture_default_str();
  command->add_option("--output", arguments->output, "write the translations to this file");
  command->add_flag("--json", arguments->as_json, "print one JSON object instead of the table");
  arguments->report = command
                          ->add_option("--report", arguments->report_to,
                                       "add the evaluation to this run on a server: id, name or a unique prefix; with "
                                       "--watch by default to the watched one")
                          ->expected(0, 1);
  command->add_option(
      "--watch", arguments->watched,
      "evaluate each checkpoint of this run on a server, downloaded from it, until the run has ended; --beam, "
      "--length-penalty and --tokenize are by default those of the run's validations");
  arguments->server.declare_access(*command);
  command->callback([arguments] { evaluate_all(*arguments); });
}

}  // namespace babelring
