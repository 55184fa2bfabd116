#include "cli/report_evaluation.h"

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <spdlog/spdlog.h>

#include <algorithm>
#include <boost/json/array.hpp>
#include <boost/json/object.hpp>
#include <cmath>
#include <limits>
#include <span>
#include <utility>

#include "base/clock.h"
#include "base/failure.h"
#include "base/log.h"
#include "base/names.h"
#include "base/records/records.h"
#include "cli/runs/run_commands.h"
#include "cli/runs/table.h"
#include "nmt/data/line_reader.h"
#include "nmt/data/manifest.h"
#include "nmt/data/vocabulary.h"
#include "nmt/train/evaluation/translation_validator.h"

namespace babelring {

EvaluationSet prepared_set(const std::filesystem::path& folder, const std::string& set, const Vocabulary& vocabulary) {
  const Manifest manifest = load_manifest(folder);
  const std::string& prepared_with = manifest.vocabulary.sha256;
  if (prepared_with != vocabulary.digest()) {
    fail("{}: prepared with vocabulary {:.12}, but the checkpoint has {:.12}", folder.string(), prepared_with,
         vocabulary.digest());
  }
  return {.name = set,
          .corpus = Corpus::open(manifest, set, true),
          .references = ParallelText::open(manifest, set, true).target};
}

EvaluationSet text_set(const std::filesystem::path& source, const std::filesystem::path& reference,
                       const Vocabulary& vocabulary) {
  const std::vector<std::string> sources = read_text_lines(source);
  std::vector<std::string> references = read_text_lines(reference);
  if (sources.size() != references.size()) {
    fail("{} has {} lines, {} has {}", source.string(), sources.size(), reference.string(), references.size());
  }
  return {.name = source.filename().string(),
          .corpus = Corpus::from_memory(encode_lines(sources, TextSide::source, vocabulary, 0),
                                        encode_lines(references, TextSide::target, vocabulary, 0)),
          .references = std::move(references)};
}

namespace {

/// The validation sets of the run that wrote the checkpoint.
std::vector<OtherSet> sets_of_run(const TrainConfig& config) {
  std::vector<OtherSet> sets = config.validation.others();
  const std::string& valid = config.data.valid_set;
  if (!valid.empty()) sets.insert(sets.begin(), {valid, config.data.folder, valid});
  return sets;
}

}  // namespace

std::vector<OtherSet> chosen_sets(const std::string& text, const TrainConfig& config, std::string_view option) {
  const std::vector<OtherSet> known = sets_of_run(config);
  std::vector<OtherSet> sets;
  for (std::size_t begin = 0; !text.empty() && begin <= text.size();) {
    const std::size_t end = std::min(text.find(',', begin), text.size());
    const std::string item = text.substr(begin, end - begin);
    begin = end + 1;
    const auto named = std::find_if(known.begin(), known.end(), [&](const OtherSet& set) { return set.name == item; });
    Result<OtherSet> set = named != known.end() ? *named : OtherSet::parse(item);
    if (!set) {
      std::vector<std::string> names;
      for (const OtherSet& each : known) names.push_back(each.name);
      throw UsageFailure(fmt::format(
          "{}: '{}' is no validation set of the run ({}); expected such a set, NAME=FOLDER, NAME=FOLDER:SET "
          "or NAME=SOURCE:REFERENCE",
          option, printable(item), names.empty() ? "it has none" : fmt::format("{}", fmt::join(names, ", "))));
    }
    const auto again =
        std::find_if(sets.begin(), sets.end(), [&](const OtherSet& each) { return each.name == set->name; });
    if (again != sets.end()) throw UsageFailure(fmt::format("{}: {} is given twice", option, printable(set->name)));
    sets.push_back(std::move(set).value());
  }
  if (sets.empty()) sets = known;
  if (sets.empty()) throw UsageFailure(fmt::format("{}: missing, and the run had no validation sets", option));
  return sets;
}

EvaluationSet named_set(const OtherSet& chosen, const Vocabulary& vocabulary) {
  EvaluationSet set = std::filesystem::is_regular_file(chosen.folder)
                          ? text_set(chosen.folder, chosen.set, vocabulary)
                          : prepared_set(chosen.folder, chosen.set, vocabulary);
  set.name = chosen.name;
  return set;
}

namespace {

std::vector<std::string> hypotheses_of(const LoadedModel& loaded, const EvaluationSet& set,
                                       const TranslateOptions& options, Backend& backend) {
  std::vector<std::span<const std::int32_t>> sources;
  for (std::int64_t i = 0; i < std::ssize(set.references); ++i) sources.push_back(set.corpus.source(i));
  Translator translator(require_transformer(*loaded.model), *loaded.vocabulary, backend);
  std::vector<std::string> hypotheses;
  std::int64_t cut = 0;
  for (const Translation& translation : translator.translate_ids(sources, options)) {
    hypotheses.push_back(translation.text());
    cut += translation.complete() ? 0 : 1;
    if (translation.cut_inside_sentence) {
      spdlog::warn("sentence {}: {} pieces, split inside a sentence into {} parts (--max-source)", hypotheses.size(),
                   translation.source_pieces, translation.parts);
    }
  }
  if (cut > 0) {
    spdlog::info("{} of {} translations were cut at the maximum length (--max-length-factor, --max-length-extra)", cut,
                 hypotheses.size());
  }
  return hypotheses;
}

}  // namespace

SetScores score_set(const LoadedModel& loaded, const EvaluationSet& set, const Bleu& bleu,
                    const TranslateOptions* search, Backend& backend) {
  ActivationArenas arenas(backend);
  if (!backend.host_memory()) arenas.reserve(evaluation_need(*loaded.model, backend));
  const TeacherForcedScores forced = teacher_forced(
      *loaded.model, {.corpus = set.corpus, .references = set.references, .vocabulary = *loaded.vocabulary}, 0,
      std::ssize(set.references), bleu, backend, arenas);
  SetScores scores{.losses = forced.losses, .teacher_forced_bleu = bleu.score(forced.bleu).score};
  if (search == nullptr) return scores;
  const Stopwatch watch;
  scores.hypotheses = hypotheses_of(loaded, set, *search, backend);
  scores.seconds = watch.elapsed_ms() / 1000;
  return scores;
}

namespace {

constexpr std::size_t sample_count = 10, max_sample_bytes = 4096, max_set_bytes = 128;

}  // namespace

json::array samples_of(const EvaluationSet& set, const std::vector<std::string>& hypotheses,
                       const Vocabulary& vocabulary) {
  json::array samples;
  const std::size_t count = std::min(sample_count, hypotheses.size());
  std::size_t left_out = 0;
  for (std::size_t k = 0; k < count; ++k) {
    const std::size_t i = k * hypotheses.size() / count;
    const std::string source = vocabulary.decode(set.corpus.source(static_cast<std::int64_t>(i)));
    if (std::max({source.size(), set.references[i].size(), hypotheses[i].size()}) > max_sample_bytes) {
      ++left_out;
      continue;
    }
    samples.push_back(
        json::object{{"source", source}, {"reference", set.references[i]}, {"hypothesis", hypotheses[i]}});
  }
  if (left_out > 0) {
    spdlog::info("--report: {} of {} samples are left out, as they are longer than {} bytes", left_out, count,
                 max_sample_bytes);
  }
  return samples;
}

EvaluationReport::EvaluationReport(const ServerAccess& access, const std::string& run) : api_(access) {
  const json::object found = find_run(api_, run);
  id_ = text_of(found, "id");
  name_ = text_of(found, "name");
}

void EvaluationReport::compare(const json::object& checkpoint_state) const {
  const std::string run = text_of(checkpoint_state, "run");
  if (run.empty() || run == id_) return;
  spdlog::warn("--report: the checkpoint is from run {}, but the evaluation is added to {} ({})", printable(run), id_,
               name_);
}

namespace {

json::array resamples_json(const std::vector<Resamples>& resamples) {
  json::array array;
  for (const Resamples& by : resamples) {
    array.push_back(json::object{{"metric", by.metric},
                                 {"signature", by.signature},
                                 {"references", by.references},
                                 {"statistics", by.statistics},
                                 {"score", std::min(by.score, 100.0)},  // rounding
                                 {"scores", json::array(by.scores.begin(), by.scores.end())}});
  }
  return array;
}

/// ", 0.30 BLEU worse than update 400 (p = 0.04)" by the server's answer; empty if it compares with nothing.
std::string compared_with_best(const json::object& answer) {
  const auto difference = get_number(answer, "bleu_above_best");
  if (!difference) return "";
  EvalRecord eval;
  eval.best_before = get_integer(answer, "best_before");
  eval.above_best = {.difference = *difference};
  if (const auto p = get_number(answer, "p_value")) eval.above_best.p_value = *p;
  return ", " + difference_to_best(eval);
}

}  // namespace

void EvaluationReport::send(const json::object& figures, json::array samples, const std::vector<Resamples>& resamples) {
  const std::string set = text_of(figures, "set");
  if (set.size() > max_set_bytes) fail("--report: the set's name is longer than {} bytes", max_set_bytes);
  json::object body = {{"update", figures.at("update")}, {"set", set}, {"signature", text_of(figures, "signature")}};
  const auto copy = [&](const char* name, double max) {
    const auto value = get_number(figures, name);
    if (value && std::isfinite(*value)) body[name] = std::min(*value, max);
  };
  for (const char* name : {"loss", "nll", "entropy", "accuracy"}) copy(name, std::numeric_limits<double>::max());
  // A perfect score may exceed 100 by rounding.
  for (const char* name : {"sacrebleu", "chrf", "teacher_forced_bleu"}) copy(name, 100);
  body["samples"] = std::move(samples);
  if (!resamples.empty()) body["resamples"] = resamples_json(resamples);
  const json::object answer = api_.send("POST", "/runs/" + id_ + "/evals", body, make_id('k'));
  const auto bleu = get_number(figures, "sacrebleu");
  const std::string score =
      bleu ? fmt::format("sacreBLEU {:.2f}", *bleu) : fmt::format("nll {:.4f}", figures.at("nll").to_number<double>());
  spdlog::info("added to run {} ({}) on {}: {} on {} after update {}{}", id_, name_, api_.access().address, score,
               printable(set), figures.at("update").to_number<std::int64_t>(), compared_with_best(answer));
}

}  // namespace babelring
