#include "nmt/train/evaluation/translation_validator.h"

#include <algorithm>
#include <limits>
#include <span>

#include "nmt/decode/translator.h"
#include "nmt/metrics/chrf.h"
#include "nmt/parallel/sum_over_ranks.h"

namespace babelring {

namespace {

/// This rank's contiguous range [first, last) of `count` sentences.
struct Share {
  std::int64_t first, last;
  Share(std::int64_t count, const Communicator& communicator)
      : first(count * communicator.rank() / communicator.size()),
        last(count * (communicator.rank() + 1) / communicator.size()) {}
};

std::vector<std::string> split_lines(const std::string& text) {
  std::vector<std::string> lines;
  for (std::size_t begin = 0; begin < text.size();) {
    const std::size_t end = text.find('\n', begin);
    lines.push_back(text.substr(begin, end - begin));
    begin = end + 1;
  }
  return lines;
}

}  // namespace

TranslationValidator::TranslationValidator(const TrainConfig& config, const Vocabulary& vocabulary,
                                           const RankContext& rank)
    : config_(config), vocabulary_(vocabulary), rank_(rank), set_(open(config.data, vocabulary)) {}

TranslationValidator::HeldOutSet TranslationValidator::open(const DataConfig& data, const Vocabulary& vocabulary) {
  const Manifest manifest = load_manifest(data.folder);
  if (manifest.vocabulary.sha256 != vocabulary.digest()) {
    fail("{}: prepared with the vocabulary {:.12}, the run uses {:.12}", data.folder, manifest.vocabulary.sha256,
         vocabulary.digest());
  }
  return {.corpus = Corpus::open(manifest, data.valid_set), .text = ParallelText::open(manifest, data.valid_set)};
}

EvalRecord TranslationValidator::run(const Model& model, bool translate) {
  const Stopwatch watch;
  const Share share(set_.corpus.sentences(), rank_.communicator);
  const ValidationSet set{.corpus = set_.corpus, .references = set_.text.target, .vocabulary = vocabulary_};
  const TeacherForcedScores forced =
      over_ranks(teacher_forced(model, set, share.first, share.last, Bleu(), rank_.backend, rank_.arenas));
  const LossSums& sums = forced.losses;
  EvalRecord record{.set = config_.data.valid_set,
                    .loss = sums.loss / sums.tokens,
                    .nll = sums.nll / sums.tokens,
                    .accuracy = sums.correct / sums.tokens,
                    .sacrebleu = std::numeric_limits<double>::quiet_NaN(),
                    .chrf = std::numeric_limits<double>::quiet_NaN(),
                    .teacher_forced_bleu = Bleu().score(forced.bleu).score};
  if (translate) {
    const std::int64_t limit = config_.validation.max_sentences;
    const std::int64_t sentences = limit > 0 ? std::min(limit, set_.corpus.sentences()) : set_.corpus.sentences();
    score(translations(model, sentences), record);
  }
  record.seconds = watch.elapsed_ms() / 1000;
  return record;
}

TeacherForcedScores TranslationValidator::over_ranks(TeacherForcedScores sums) const {
  sum_over_ranks(rank_.communicator, [&sums](auto&& visit) {
    sums.losses.each(visit);
    for (std::int64_t& count : sums.bleu.correct) visit(count);
    for (std::int64_t& count : sums.bleu.total) visit(count);
    visit(sums.bleu.hypothesis_length);
    visit(sums.bleu.reference_length);
  });
  return sums;
}

/// Translates the first `sentences` sentences of the set. Returns all translations in order on every rank.
std::vector<std::string> TranslationValidator::translations(const Model& model, std::int64_t sentences) const {
  const Share share(sentences, rank_.communicator);
  std::vector<std::span<const std::int32_t>> sources;
  for (std::int64_t i = share.first; i < share.last; ++i) sources.push_back(set_.corpus.source(i));
  Translator translator(require_transformer(model), vocabulary_, rank_.backend);
  const TranslateOptions options{
      .beam = {.beam = config_.validation.beam, .length_penalty = config_.validation.length_penalty}};
  std::string mine;
  for (const Translation& translation : translator.translate_ids(sources, options)) {
    mine += translation.text() + "\n";
  }
  std::vector<std::string> all;
  for (const std::string& part : rank_.communicator.all_gather(mine)) {
    for (std::string& line : split_lines(part)) all.push_back(std::move(line));
  }
  return all;
}

void TranslationValidator::score(const std::vector<std::string>& hypotheses, EvalRecord& record) const {
  std::vector<std::string> references(set_.text.target.begin(),
                                      set_.text.target.begin() + static_cast<std::ptrdiff_t>(hypotheses.size()));
  const std::size_t samples = std::min(hypotheses.size(), static_cast<std::size_t>(config_.validation.samples));
  for (std::size_t k = 0; k < samples; ++k) {
    const std::size_t i = k * hypotheses.size() / samples;  // spread evenly over the set
    record.samples.push_back({.source = set_.text.source[i], .reference = references[i], .hypothesis = hypotheses[i]});
  }
  const Bleu bleu;
  record.sacrebleu = bleu.corpus(hypotheses, {references}).score;
  record.signature = bleu.signature();
  record.chrf = Chrf().corpus(hypotheses, {references});
}

}  // namespace babelring
