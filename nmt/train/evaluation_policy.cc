#include "nmt/train/evaluation_policy.h"

#include <fmt/format.h>

#include <boost/json/object.hpp>
#include <cmath>
#include <utility>

#include "base/digest.h"
#include "base/log.h"
#include "base/names.h"
#include "nmt/train/evaluation/validator.h"

namespace babelring {

void ValidationConfig::bind(OptionBinder& b) {
  b.parsed("every", every,
           "interval between validations in updates (u), epochs (e) or target tokens (t); 0: at the end only");
  b.parsed("bleu_every", bleu_every, "min interval between validations that also translate and compute BLEU; 0: never");
  b.integer("max_sentences", max_sentences, 0, std::int64_t{1} << 40,
            "max number of sentences translated for BLEU; 0: all");
  b.integer("beam", beam, 1, 64, "beam size; 1: greedy search");
  b.number("length_penalty", length_penalty, 0, 10,
           "hypothesis scores are divided by length^N; larger values favour longer translations");
  b.choice(
      "precision", precision, {{"training", ValidationPrecision::training}, {"int8", ValidationPrecision::int8}},
      "precision of matmuls of the translations: training: training.precision; int8: weights and inputs rounded to "
      "8 bits, as `nmt translate --precision int8` rounds them, on the CPU only; losses are not affected");
  b.choice("tokenizer", tokenizer, tokenizers(), tokenizer_help);
  b.integer("samples", samples, 0, 200, "number of sample translations stored with each evaluation");
  b.integer("patience", patience, 0, 1000000,
            "stop early after N evaluations without a better BLEU (or loss, if BLEU is off or equal); 0: never");
  b.parsed(
      "patience_after", patience_after,
      "evaluations before this point of training (2000u, 1e or 5Mt), such as those of the warm-up, do not count for "
      "patience; 0u: all count");
  b.integer("sequences", sequences, 1, std::int64_t{1} << 30,
            "task gssm on the fly: number of held-out sequences, shared by all ranks");
  b.integer(
      "train_sample", train_sample, 0, std::int64_t{1} << 30,
      "number of sentence pairs (task gssm: sequences) of the training set that each validation also scores, which "
      "tells overfitting; 0: none");
  b.list("other_sets", other_sets,
         "held-out sets that each validation also scores, such as general=data/general: NAME=FOLDER or "
         "NAME=FOLDER:SET (default valid), of folders that `nmt prepare --vocabulary` wrote with the vocabulary of "
         "data.folder; the best checkpoint and early stopping follow data.valid_set alone");
}

Result<OtherSet> OtherSet::parse(std::string_view text) {
  constexpr std::size_t max_name_bytes = 128;  // of a set that the server takes
  const std::size_t equals = text.find('=');
  OtherSet other{.name = std::string(text.substr(0, equals)),
                 .folder = equals == std::string_view::npos ? "" : std::string(text.substr(equals + 1))};
  if (const std::size_t colon = other.folder.rfind(':'); colon != std::string::npos) {
    other.set = other.folder.substr(colon + 1);
    other.folder.resize(colon);
  }
  if (other.name.empty() || other.name.size() > max_name_bytes || other.folder.empty() || other.set.empty()) {
    return Error{fmt::format("expected NAME=FOLDER or NAME=FOLDER:SET, found '{}'", printable(text))};
  }
  if (const Status checked = check_name(other.name); !checked) return Error{checked.error()};
  return other;
}

std::vector<OtherSet> ValidationConfig::others() const {
  std::vector<OtherSet> sets;
  for (const std::string& text : other_sets) {
    Result<OtherSet> parsed = OtherSet::parse(text);
    if (!parsed) throw ConfigError("validation.other_sets", "validation.other_sets: " + parsed.error());
    sets.push_back(std::move(parsed).value());
  }
  return sets;
}

json::object scoring_options(const TrainConfig& config, Tokenizer tokenizer) {
  const ValidationConfig& validation = config.validation;
  const bool bleu = validation.bleu_every.value() > 0;
  json::object scoring = {{"metric", bleu ? "sacrebleu" : "loss"},
                          {"set", config.data.valid_set},
                          {"label_smoothing", fmt::format("{}", config.optimizer.label_smoothing)}};
  if (!bleu) return scoring;
  scoring["tokenizer"] = name_of(tokenizer);
  scoring["beam"] = fmt::format("{}", validation.beam);
  scoring["length_penalty"] = fmt::format("{}", validation.length_penalty);
  scoring["max_sentences"] = fmt::format("{}", validation.max_sentences);
  if (validation.precision == ValidationPrecision::int8) scoring["precision"] = name_of(DType::int8);
  return scoring;
}

EvaluationPolicy::EvaluationPolicy(const ValidationConfig& config)
    : every_(config.every),
      bleu_every_(config.bleu_every),
      patience_after_(config.patience_after),
      patience_(config.patience) {}

Evaluation EvaluationPolicy::due(const Progress& before, const Progress& now) const {
  if (bleu_every_.times(now) > bleu_every_.times(before)) return Evaluation::translations;
  return every_.times(now) > every_.times(before) ? Evaluation::scores : Evaluation::none;
}

bool EvaluationPolicy::done(Evaluation evaluation, std::int64_t update) const {
  return (evaluation == Evaluation::translations ? translated_update_ : scored_update_) == update;
}

void describe_scoring(EvalRecord& record, const json::object& scoring) {
  constexpr std::size_t digest_digits = 16;  // tell the few ways apart in which one run is scored
  if (scoring.empty()) return;
  record.scoring = sha256_hex(to_text(scoring)).substr(0, digest_digits);
  if (const json::value* digest = scoring.if_contains("digest")) {
    record.set_digest = std::string(digest->as_string()).substr(0, digest_digits);
  }
}

namespace {

/// Says in the record how much better it is than the best evaluation so far, where both have a BLEU.
void compare_with_best(EvalRecord& record, const TrainingState& state) {
  if (!std::isfinite(state.best_score)) return;
  record.best_before = state.best_update;
  record.above_best.difference = record.sacrebleu - state.best_score;
  for (const Resamples& own : record.resamples) {
    const Result<ScoreDifference> compared = compare(own, state.best_resamples);
    if (compared) record.above_best = *compared;
  }
}

/// The resamples by BLEU, which decides on the best; none: empty.
Resamples by_bleu_of(const EvalRecord& record) {
  for (const Resamples& own : record.resamples) {
    if (own.metric == "BLEU") return own;
  }
  return {};
}

}  // namespace

void EvaluationPolicy::note(EvalRecord& record, Evaluation evaluation, TrainingState& state) {
  const bool translated = evaluation == Evaluation::translations;
  describe_scoring(record, state.scoring);
  scored_update_ = record.update;
  if (translated) translated_update_ = record.update;
  if (translated || !by_bleu()) {
    const double score = by_bleu() ? record.sacrebleu : -record.loss;
    const bool better = score > state.best_score || (score == state.best_score && record.loss < state.best_loss);
    record.best = std::isfinite(record.loss) && better;
    if (by_bleu()) compare_with_best(record, state);
    if (record.best) {
      state.best_score = score;
      state.best_loss = record.loss;
      state.best_update = record.update;
      state.best_resamples = by_bleu_of(record);
      state.evaluations_since_best = 0;
    } else if (patience_after_.fraction(state.progress) >= 1) {
      ++state.evaluations_since_best;
    }
  }
  if (!record.best) record.resamples.clear();
  newest_ = record;
  newest_.resamples.clear();
}

const EvalRecord* EvaluationPolicy::newest(std::int64_t update) const {
  return newest_.update == update ? &newest_ : nullptr;
}

bool EvaluationPolicy::out_of_patience(const TrainingState& state) const {
  return patience_ > 0 && state.evaluations_since_best >= patience_;
}

std::string EvaluationPolicy::patience_text(const TrainingState& state) const {
  std::string text = fmt::format("{} evaluations without a better one", state.evaluations_since_best);
  if (std::isnan(newest_.above_best.difference)) return text;
  return text + fmt::format("; the last, BLEU {:.2f}, is {}", newest_.sacrebleu, difference_to_best(newest_));
}

void EvaluationPolicy::rewind() {
  scored_update_ = translated_update_ = 0;
  newest_ = {};
}

}  // namespace babelring
