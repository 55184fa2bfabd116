#include "nmt/train/evaluation/translation_validator.h"

#include <spdlog/spdlog.h>

#include <algorithm>
#include <boost/json/object.hpp>
#include <iterator>
#include <limits>
#include <memory>
#include <span>
#include <utility>

#include "base/digest.h"
#include "base/failure.h"
#include "base/records/records.h"
#include "nmt/checkpoint/quantized_weights.h"
#include "nmt/data/batch_plan.h"
#include "nmt/decode/translator.h"
#include "nmt/metrics/significance.h"
#include "nmt/parallel/rank_context.h"
#include "nmt/train/setup/memory_plan.h"

namespace babelring {
namespace {

constexpr std::int64_t batch_tokens = 2048;

void add_forced_batch(const Model& model, const ValidationSet& set, const PackedBatch& batch, std::size_t sentence,
                      const Bleu& bleu, Backend& backend, ActivationArenas& arenas, TeacherForcedScores& sums) {
  Context context = arenas.begin(model.compute_dtype());
  const DeviceBatch on_device(backend, context.saved, batch);
  const Tensor predicted = context.saved.make(on_device.target_out.shape, DType::i32);
  sums.losses += model.evaluate(context, on_device, predicted);
  std::vector<std::int32_t> ids(batch.target_out.size());
  backend.download(predicted, ids.data());
  for (std::size_t i = 0; i < ids.size(); ++i) {
    sums.repeats += ids[i] == batch.target_in.ids[i] && ids[i] != batch.target_out[i] ? 1 : 0;
  }
  for (std::size_t i = 0; i + 1 < batch.target_in.offsets.size(); ++i, ++sentence) {
    const auto begin = ids.begin() + batch.target_in.offsets[i], end = ids.begin() + batch.target_in.offsets[i + 1];
    sums.bleu += bleu.count(set.vocabulary.decode({begin, end}), {set.references[sentence]});
  }
}

}  // namespace

double TeacherForcedScores::bleu_score(const Bleu& by) const {
  if (2 * static_cast<double>(repeats) > losses.tokens) return std::numeric_limits<double>::quiet_NaN();
  return by.score(bleu).score;
}

ArenaBytes evaluation_need(const Model& model, Backend& backend) {
  return dry_run_evaluation(model, backend, batch_tokens);
}

TeacherForcedScores teacher_forced(const Model& model, const ValidationSet& set, std::int64_t first, std::int64_t last,
                                   const Bleu& bleu, Backend& backend, ActivationArenas& arenas) {
  TeacherForcedScores sums;
  auto sentence = static_cast<std::size_t>(first);
  for (const PackedBatch& batch : sequential_batches(set.corpus, first, last, batch_tokens)) {
    add_forced_batch(model, set, batch, sentence, bleu, backend, arenas, sums);
    sentence += static_cast<std::size_t>(batch.target_in.sentences());
  }
  return sums;
}

namespace {

std::vector<std::string> split_lines(const std::string& text) {
  std::vector<std::string> lines;
  for (std::size_t begin = 0; begin < text.size();) {
    const std::size_t end = text.find('\n', begin);
    lines.push_back(text.substr(begin, end - begin));
    begin = end + 1;
  }
  return lines;
}

Manifest manifest_of(const std::string& folder, const Vocabulary& vocabulary) {
  Manifest manifest = load_manifest(folder);
  if (manifest.vocabulary.sha256 != vocabulary.digest()) {
    fail("{}: prepared with the vocabulary {:.12}, the run uses {:.12}", folder, manifest.vocabulary.sha256,
         vocabulary.digest());
  }
  return manifest;
}

}  // namespace

EvaluatedSet open_held_out_pairs(const OtherSet& set, const Vocabulary& vocabulary) {
  const Manifest manifest = manifest_of(set.folder, vocabulary);
  return {.name = set.name, .corpus = Corpus::open(manifest, set.set), .text = ParallelText::open(manifest, set.set)};
}

EvaluatedSet sample_training_set(const TrainConfig& config, const Vocabulary& vocabulary) {
  const Corpus corpus = Corpus::open(manifest_of(config.data.folder, vocabulary), config.data.train_set);
  std::vector<std::int64_t> trained;  // sentences that are not longer than data.max_length, with </s>
  for (std::int64_t i = 0; i < corpus.sentences(); ++i) {
    if (std::max(corpus.source_length(i), corpus.target_length(i)) < config.data.max_length) trained.push_back(i);
  }
  const auto all = static_cast<std::int64_t>(trained.size());
  const std::int64_t count = std::min(config.validation.train_sample, all);
  std::vector<std::vector<std::int32_t>> sources, targets;
  ParallelText text;
  for (std::int64_t k = 0; k < count; ++k) {
    const std::int64_t i = trained[static_cast<std::size_t>(k * all / count)];
    const std::span<const std::int32_t> source = corpus.source(i), target = corpus.target(i);
    sources.emplace_back(source.begin(), source.end());
    targets.emplace_back(target.begin(), target.end());
    text.source.push_back(vocabulary.decode(source));
    text.target.push_back(vocabulary.decode(target));
  }
  return {.name = train_sample_set, .corpus = Corpus::from_memory(sources, targets), .text = std::move(text)};
}

TranslationValidator::TranslationValidator(const TrainConfig& config, const Vocabulary& vocabulary,
                                           const RankContext& rank, EvaluatedSet set)
    : config_(config),
      vocabulary_(vocabulary),
      rank_(rank),
      part_(rank_part(config, rank.communicator, 0)),
      set_(std::move(set)),
      tokenizer_(resolved(config.validation.tokenizer, set_.text.target)),
      bleu_({.tokenizer = tokenizer_}),
      sacrebleu_(make_metric(MetricKind::bleu, {.bleu = {.tokenizer = tokenizer_}})),
      chrf_(make_metric(MetricKind::chrf, {})) {
  if (config.validation.precision == ValidationPrecision::int8 && !rank.backend.host_memory()) {
    throw UsageFailure(fmt::format("validation.precision: found int8 with {}, expected a processor or training",
                                   rank.backend.description()));
  }
}

json::object TranslationValidator::scoring(const TrainConfig& config) const {
  Sha256 digest;
  digest.add(set_.corpus.digest());
  for (const std::string& reference : set_.text.target) digest.add(reference).add("\n");
  json::object scoring = scoring_options(config, tokenizer_);
  scoring["set"] = set_.name;
  scoring["digest"] = digest.hex();
  return scoring;
}

EvalRecord TranslationValidator::run(const Model& model, bool translate) {
  const Stopwatch watch;
  const ValidationSet set{.corpus = set_.corpus, .references = set_.text.target, .vocabulary = vocabulary_};
  const UnitRange own = units_of(part_);
  std::vector<TeacherForcedScores> units(static_cast<std::size_t>(own.total));
  auto unit = units.begin() + own.first;
  for (const Range& range : ranges(set_.corpus.sentences())) {
    *unit++ = teacher_forced(model, set, range.first, range.last, bleu_, rank_.backend, rank_.arenas);
  }
  const TeacherForcedScores forced = over_ranks(std::move(units));
  const LossSums& sums = forced.losses;
  EvalRecord record{.set = set_.name,
                    .loss = sums.loss / sums.tokens,
                    .nll = sums.nll / sums.tokens,
                    .accuracy = sums.correct / sums.tokens,
                    .sacrebleu = std::numeric_limits<double>::quiet_NaN(),
                    .chrf = std::numeric_limits<double>::quiet_NaN(),
                    .teacher_forced_bleu = forced.bleu_score(bleu_)};
  if (translate) {
    const std::int64_t limit = config_.validation.max_sentences;
    const std::int64_t sentences = limit > 0 ? std::min(limit, set_.corpus.sentences()) : set_.corpus.sentences();
    score(translations(model, sentences), record);
  }
  record.seconds = watch.elapsed_ms() / 1000;
  return record;
}

/// This rank's contiguous part of `sentences` sentences, one range for each of its units.
std::vector<TranslationValidator::Range> TranslationValidator::ranges(std::int64_t sentences) const {
  const UnitRange units = units_of(part_);
  const std::int64_t parts = part_.units > 0 ? units.total : part_.world;
  const std::int64_t first = part_.units > 0 ? units.first : part_.rank;
  std::vector<Range> ranges;
  for (std::int64_t part = first; part < first + units.count; ++part) {
    ranges.push_back({.first = sentences * part / parts, .last = sentences * (part + 1) / parts});
  }
  return ranges;
}

/// The sum over the units of all ranks. `units` has this rank's, and 0 for those of other ranks.
TeacherForcedScores TranslationValidator::over_ranks(std::vector<TeacherForcedScores> units) const {
  sum_over_ranks(rank_.communicator, [&units](auto&& visit) {
    for (TeacherForcedScores& sums : units) {
      sums.losses.each(visit);
      visit(sums.repeats);
      for (std::int64_t& count : sums.bleu.correct) visit(count);
      for (std::int64_t& count : sums.bleu.total) visit(count);
      visit(sums.bleu.hypothesis_length);
      visit(sums.bleu.reference_length);
    }
  });
  return sum_in_tree(std::move(units));
}

/// Translates the first `sentences` sentences of the set. Returns all translations in order on every rank.
std::vector<std::string> TranslationValidator::translations(const Model& model, std::int64_t sentences) const {
  const bool rounds = config_.validation.precision == ValidationPrecision::int8;
  const std::unique_ptr<const Transformer> rounded =
      rounds ? quantized_copy(require_transformer(model), rank_.backend) : nullptr;
  Translator translator(rounds ? *rounded : require_transformer(model), vocabulary_, rank_.backend);
  const TranslateOptions options{
      .beam = {.beam = config_.validation.beam, .length_penalty = config_.validation.length_penalty}};
  std::string mine;
  std::int64_t cut = 0;
  for (const Range& range : ranges(sentences)) {
    std::vector<std::span<const std::int32_t>> sources;
    for (std::int64_t i = range.first; i < range.last; ++i) sources.push_back(set_.corpus.source(i));
    for (const Translation& translation : translator.translate_ids(sources, options)) {
      mine += translation.text() + "\n";
      cut += translation.complete() ? 0 : 1;
    }
  }
  const std::vector<std::string> parts = rank_.communicator.all_gather(fmt::format("{} {}\n{}", part_.rank, cut, mine));
  std::vector<std::vector<std::string>> by_part(parts.size());
  std::int64_t all_cut = 0;
  for (const std::string& part : parts) {
    std::vector<std::string> lines = split_lines(part);
    std::size_t digits = 0;
    const auto place = static_cast<std::size_t>(std::stoll(lines[0], &digits));
    all_cut += std::stoll(lines[0].substr(digits));
    by_part[place].assign(std::make_move_iterator(lines.begin() + 1), std::make_move_iterator(lines.end()));
  }
  std::vector<std::string> all;
  for (std::vector<std::string>& part : by_part) {
    all.insert(all.end(), std::make_move_iterator(part.begin()), std::make_move_iterator(part.end()));
  }
  if (all_cut > 0 && part_.rank == 0) {
    spdlog::info("{}: {} of {} translations were cut at the maximum length", evaluation_name(set_.name), all_cut,
                 all.size());
  }
  return all;
}

void TranslationValidator::score(const std::vector<std::string>& hypotheses, EvalRecord& record) {
  if (hypotheses.empty()) return;
  std::vector<std::string> references(set_.text.target.begin(),
                                      set_.text.target.begin() + static_cast<std::ptrdiff_t>(hypotheses.size()));
  const std::size_t samples = std::min(hypotheses.size(), static_cast<std::size_t>(config_.validation.samples));
  for (std::size_t k = 0; k < samples; ++k) {
    const std::size_t i = k * hypotheses.size() / samples;  // spread evenly over the set
    record.samples.push_back({.source = set_.text.source[i], .reference = references[i], .hypothesis = hypotheses[i]});
  }
  const SentenceStatistics by_bleu(*sacrebleu_, hypotheses, {references}), by_chrf(*chrf_, hypotheses, {references});
  record.sacrebleu = by_bleu.score();
  record.signature = bleu_.signature();
  record.chrf = by_chrf.score();
  if (set_.resampled && rank_.communicator.rank() == 0) {
    record.resamples = {resamples_of(by_bleu, references), resamples_of(by_chrf, references)};
  }
  const std::string doubt = doubt_of_tokenizer(record.sacrebleu, record.accuracy);
  if (doubt.empty() || part_.rank != 0 || std::exchange(doubted_tokenizer_, true)) return;
  spdlog::warn("{}: {} (validation.tokenizer is {})", evaluation_name(set_.name), doubt, name_of(tokenizer_));
}

}  // namespace babelring
