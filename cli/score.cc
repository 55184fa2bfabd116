#include "cli/commands.h"

#include <fmt/core.h>
#include <spdlog/spdlog.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <cmath>
#include <cstdio>
#include <filesystem>
#include <memory>
#include <numeric>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "base/failure.h"
#include "base/files.h"
#include "base/json.h"
#include "base/log.h"
#include "base/options/usage.h"
#include "cli/model_options.h"
#include "nmt/data/line_reader.h"
#include "nmt/decode/pair_scorer.h"
#include "nmt/metrics/bleu.h"
#include "nmt/metrics/chrf.h"
#include "nmt/train/setup/memory_plan.h"

namespace babelring {

namespace {

/// The options that compare a hypothesis with references.
struct ScoreArguments {
  std::string hypothesis, smoothing = "exp";
  Tokenizer tokenizer = Tokenizer::automatic;
  std::vector<std::string> references, metrics = {"bleu"};
  double smoothing_value = -1;
  bool lowercase = false, sentence = false, json = false;
};

/// The texts to compare, and the scoring options.
struct Scoring {
  std::vector<std::string> hypotheses;
  std::vector<std::vector<std::string>> references;  // [set][line]

  std::vector<std::string> references_of(std::size_t line) const {
    std::vector<std::string> of_line;
    for (const auto& set : references) of_line.push_back(set[line]);
    return of_line;
  }
};

/// The results of one metric.
struct Score {
  std::string name, text, signature;
  double score = 0;
  std::vector<double> of_sentences;  // filled on request
};

/// Where BLEU prints as 0 although most character n-grams match, its tokenizer sees no words, unless the lines are
/// short.
void warn_of_tokenizer(double bleu, Tokenizer tokenizer, const Scoring& scoring) {
  constexpr double prints_as_zero = 0.005, high_chrf = 50;
  if (bleu >= prints_as_zero || tokenizer == tokenizer_for(scoring.references.front())) return;
  const double chrf = Chrf().corpus(scoring.hypotheses, scoring.references);
  if (chrf < high_chrf) return;
  spdlog::warn("BLEU {:.2f} with chrF2 {:.2f}: wrong tokenizer? (--tokenize is {})", bleu, chrf, name_of(tokenizer));
}

Score bleu_score(const ScoreArguments& arguments, const Scoring& scoring) {
  BleuOptions options{.tokenizer = resolved(arguments.tokenizer, scoring.references.front()),
                      .lowercase = arguments.lowercase,
                      .smoothing = parse_smoothing(arguments.smoothing).value(),
                      .smoothing_value = arguments.smoothing_value};
  const Bleu bleu(options);
  options.effective_order = true;
  const Bleu sentence_bleu(options);
  const BleuScore corpus = bleu.corpus(scoring.hypotheses, scoring.references);
  warn_of_tokenizer(corpus.score, options.tokenizer, scoring);
  Score score{"BLEU", corpus.text(), bleu.signature(scoring.references.size()), corpus.score, {}};
  for (std::size_t i = 0; arguments.sentence && i < scoring.hypotheses.size(); ++i) {
    const BleuCounts counts = sentence_bleu.count(scoring.hypotheses[i], scoring.references_of(i));
    score.of_sentences.push_back(sentence_bleu.score(counts).score);
  }
  return score;
}

Score chrf_score(const ScoreArguments& arguments, const Scoring& scoring, int word_order) {
  const Chrf chrf(ChrfOptions{.word_order = word_order, .lowercase = arguments.lowercase});
  const double corpus = chrf.corpus(scoring.hypotheses, scoring.references);
  Score score{chrf.name(), chrf.text(corpus), chrf.signature(scoring.references.size()), corpus, {}};
  for (std::size_t i = 0; arguments.sentence && i < scoring.hypotheses.size(); ++i) {
    score.of_sentences.push_back(chrf.score(chrf.count(scoring.hypotheses[i], scoring.references_of(i))));
  }
  return score;
}

void print_scores_json(const std::vector<Score>& scores, std::size_t lines) {
  json::array list;
  for (const Score& score : scores) {
    json::object entry = {
        {"name", score.name}, {"score", score.score}, {"signature", score.signature}, {"text", score.text}};
    if (!score.of_sentences.empty()) {
      entry["sentences"] = json::array(score.of_sentences.begin(), score.of_sentences.end());
    }
    list.push_back(std::move(entry));
  }
  fmt::print("{}\n", to_text(json::object{{"lines", lines}, {"scores", std::move(list)}}));
}

void print_scores(const std::vector<Score>& scores) {
  for (const Score& score : scores) {
    for (std::size_t i = 0; i < score.of_sentences.size(); ++i) {
      fmt::print("{} {} = {:.2f}\n", i + 1, score.name, score.of_sentences[i]);
    }
    fmt::print("{}\n{}\n", score.text, score.signature);
  }
}

void run_score(const ScoreArguments& arguments) {
  Scoring scoring;
  scoring.hypotheses = read_text_lines(arguments.hypothesis);
  if (scoring.hypotheses.empty()) fail("{} has no lines; expected one per reference line", arguments.hypothesis);
  for (const auto& reference :
       without_repeats({arguments.references.begin(), arguments.references.end()}, "--reference")) {
    const std::string file = reference.string();
    scoring.references.push_back(read_text_lines(file));
    if (scoring.references.back().size() != scoring.hypotheses.size()) {
      fail("{} has {} lines, {} has {}; expected equal numbers", arguments.hypothesis, scoring.hypotheses.size(), file,
           scoring.references.back().size());
    }
  }
  std::vector<Score> scores;
  for (const std::string& metric : arguments.metrics) {
    scores.push_back(metric == "bleu" ? bleu_score(arguments, scoring)
                                      : chrf_score(arguments, scoring, metric == "chrf" ? 0 : 2));
  }
  if (arguments.json) {
    print_scores_json(scores, scoring.hypotheses.size());
  } else {
    print_scores(scores);
  }
}

/// The options that score pairs by a model.
struct PairArguments {
  ModelOptions model;
  std::string source, target;
  std::int64_t batch_tokens = 2048;
  bool tokens = false, truncate = false, json = false;
  double keep_below = 0;
  std::vector<std::string> output;  // for source and target of the pairs that are kept; empty: none are written
};

/// Writes the pairs below --keep-below to two files, which appear when both are complete.
class KeptPairs {
 public:
  explicit KeptPairs(const PairArguments& arguments)
      : limit_(arguments.keep_below), source_(arguments.output[0]), target_(arguments.output[1]) {}

  /// `nats[i]`: mean negative log-probability of a token of pair i.
  void add(const LinePairs& pairs, const std::vector<double>& nats) {
    std::string sources, targets;
    for (std::size_t i = 0; i < nats.size(); ++i) {
      if (!(nats[i] < limit_)) continue;
      sources += pairs.sources[i] + '\n';
      targets += pairs.targets[i] + '\n';
      ++kept_;
    }
    source_.write(sources);
    target_.write(targets);
  }

  void commit(std::int64_t pairs) {
    AtomicFile::commit_both(source_, target_);
    spdlog::info("--keep-below {}: kept {} of {} pairs, dropped {}", limit_, kept_, pairs, pairs - kept_);
  }

 private:
  double limit_;
  AtomicFile source_, target_;
  std::int64_t kept_ = 0;
};

double sum_of_tokens(const std::vector<float>& tokens) {
  return std::accumulate(tokens.begin(), tokens.end(), 0.0);
}

/// The subword text of each token of a target, with </s>.
std::vector<std::string> pieces_of(std::vector<std::int32_t> target, const Vocabulary& vocabulary) {
  target.push_back(eos_id);
  std::vector<std::string> pieces;
  for (const std::int32_t id : target) pieces.push_back(vocabulary.piece(id));
  return pieces;
}

std::string pair_text(const std::vector<float>& tokens, const std::vector<std::string>& pieces) {
  std::string text = fmt::format("{:.6f}\t{}", sum_of_tokens(tokens), tokens.size());
  for (std::size_t i = 0; i < pieces.size(); ++i) text += fmt::format("\t{}\t{:.6f}", printable(pieces[i]), tokens[i]);
  return text;
}

std::string pair_json(std::int64_t line, const std::vector<float>& tokens, const std::vector<std::string>& pieces) {
  json::object pair = {{"line", line}, {"log_probability", sum_of_tokens(tokens)}, {"tokens", tokens.size()}};
  if (!pieces.empty()) {
    json::array& list = pair["pieces"].emplace_array();
    for (std::size_t i = 0; i < pieces.size(); ++i) {
      list.push_back({{"piece", pieces[i]}, {"log_probability", static_cast<double>(tokens[i])}});
    }
  }
  return to_text(pair);
}

PairInput open_pairs(const PairArguments& arguments, const LoadedModel& loaded) {
  return {{.source = arguments.source,
           .target = arguments.target,
           .max_pieces = std::max(1, loaded.config.data.max_length - 1),  // without </s>
           .truncate = arguments.truncate,
           .threads = arguments.model.threads},
          *loaded.vocabulary};
}

/// Reads the texts to their ends, so that bad input is refused before the first score. A pipe can be read only once.
void check_pairs(const PairArguments& arguments, const LoadedModel& loaded) {
  for (const std::string& file : {arguments.source, arguments.target}) {
    if (std::filesystem::exists(file) && !std::filesystem::is_regular_file(file)) return;
  }
  PairInput input = open_pairs(arguments, loaded);
  while (input.next().size() > 0) {
  }
}

/// Scores and prints the next pairs. Returns the sum over their tokens.
LossSums score_next(const PairArguments& arguments, const LinePairs& pairs, std::int64_t first_line,
                    const Vocabulary& vocabulary, PairScorer& scorer, std::optional<KeptPairs>& kept) {
  LossSums sums;
  std::vector<double> nats;
  const std::vector<std::vector<float>> scores = scorer.score(pairs);
  for (std::size_t i = 0; i < scores.size(); ++i) {
    const std::vector<float>& tokens = scores[i];
    std::vector<std::string> pieces;
    if (arguments.tokens) pieces = pieces_of(pairs.target_ids[i], vocabulary);
    const std::int64_t line = first_line + static_cast<std::int64_t>(i);
    fmt::print("{}\n", arguments.json ? pair_json(line, tokens, pieces) : pair_text(tokens, pieces));
    const double nll = -sum_of_tokens(tokens), count = static_cast<double>(tokens.size());
    sums += {.nll = nll, .tokens = count};
    nats.push_back(nll / count);
  }
  if (std::fflush(stdout) != 0) fail("standard output: cannot be written");
  if (kept) kept->add(pairs, nats);
  return sums;
}

/// Throws UsageFailure unless the files of --output are new and two.
void check_output(const std::vector<std::string>& output) {
  std::vector<std::filesystem::path> files;
  for (const std::string& file : output) {
    if (std::filesystem::exists(file)) throw UsageFailure(fmt::format("--output: {} exists already", file));
    files.push_back(std::filesystem::weakly_canonical(std::filesystem::absolute(file)));
  }
  if (files.size() > 1 && files[0] == files[1]) {
    throw UsageFailure(fmt::format("--output: found {} twice, expected two files", output[0]));
  }
}

void run_pairs(const PairArguments& arguments) {
  check_output(arguments.output);
  const std::unique_ptr<Backend> backend = arguments.model.make_backend();
  const LoadedModel loaded = arguments.model.load(*backend);
  check_pairs(arguments, loaded);
  PairInput input = open_pairs(arguments, loaded);
  std::optional<KeptPairs> kept;
  if (!arguments.output.empty()) kept.emplace(arguments);
  const Transformer& model = require_transformer(*loaded.model);
  ActivationArenas arenas(*backend);
  if (!backend->host_memory()) arenas.reserve(dry_run_evaluation(model, *backend, arguments.batch_tokens));
  PairScorer scorer(model, *backend, arenas, arguments.batch_tokens);
  LossSums sums;
  std::int64_t lines = 0;
  for (LinePairs pairs = input.next(); pairs.size() > 0; pairs = input.next()) {
    sums += score_next(arguments, pairs, lines + 1, *loaded.vocabulary, scorer, kept);
    lines = input.pairs();
  }
  if (lines == 0) fail("{} has no lines; expected a source per line", arguments.source);
  if (input.cut() > 0) {
    spdlog::warn("--truncate: cut {} {}, the first {}", input.cut(), input.cut() == 1 ? "line" : "lines",
                 input.first_cut());
  }
  const double nats = sums.nll / sums.tokens;
  spdlog::info("{} pairs, {} target tokens: {:.4f} nats a token (perplexity {:.2f})", lines, sums.tokens, nats,
               std::exp(nats));
  if (kept) kept->commit(lines);
}

// The groups of the options that only one of the two modes has.
constexpr const char* comparing_group = "BLEU and chrF of a text";
constexpr const char* pairs_group = "Log-probabilities of pairs";

/// The first option of the group that was given; null: none.
const CLI::Option* given(const CLI::App& command, const std::string& group) {
  for (const CLI::Option* option : command.get_options()) {
    if (option->get_group() == group && option->count() > 0) return option;
  }
  return nullptr;
}

/// True if pairs are to be scored. Throws UsageFailure if options of both modes were given, or too few of one.
bool scores_pairs(const CLI::App& command) {
  const CLI::Option *comparing = given(command, comparing_group), *pairs = given(command, pairs_group);
  const std::string expected = "expected --reference and --hypothesis, or --checkpoint, --source and --target";
  if (comparing == nullptr && pairs == nullptr) throw UsageFailure("score: " + expected);
  if (comparing != nullptr && pairs != nullptr) {
    throw UsageFailure(fmt::format("score: found {} and {}, {}", comparing->get_name(), pairs->get_name(), expected));
  }
  const auto needed = pairs != nullptr ? std::vector{"--checkpoint", "--source", "--target"}
                                       : std::vector{"--reference", "--hypothesis"};
  for (const char* name : needed) {
    if (command.get_option(name)->count() == 0) throw UsageFailure(fmt::format("{} is required; {}", name, expected));
  }
  return pairs != nullptr;
}

void declare_comparing(CLI::App& command, ScoreArguments& arguments) {
  command.add_option("--reference", arguments.references, "reference text, plain or gzip; may be repeated")
      ->type_name("FILE");
  command
      .add_option("--hypothesis", arguments.hypothesis,
                  "text to score, one line per reference line; a byte-order mark is skipped")
      ->type_name("FILE");
  command.add_option("--metrics", arguments.metrics, "comma-separated: bleu, chrf, chrf++")
      ->delimiter(',')
      ->check(CLI::IsMember({"bleu", "chrf", "chrf++"}))
      ->capture_default_str();
  add_choice(command, "--tokenize", arguments.tokenizer, tokenizers(), tokenizer_help);
  command.add_flag("--lowercase", arguments.lowercase, "ignore case");
  command.add_option("--smooth", arguments.smoothing, "BLEU smoothing of zero precisions")
      ->check(CLI::IsMember({"exp", "none", "floor", "add-k"}))
      ->capture_default_str();
  command
      .add_option("--smooth-value", arguments.smoothing_value, "value for floor (default 0.1) and add-k (default 1)")
      ->check(CLI::NonNegativeNumber);
  command.add_flag("--sentence", arguments.sentence, "also print the score of each line (BLEU with effective order)");
}

void declare_pairs(CLI::App& command, PairArguments& arguments) {
  arguments.model.declare_model(command);
  command.get_option("--checkpoint")->required(false);
  arguments.model.declare_device(command);
  command.add_option("--source", arguments.source, "source text, plain or gzip")->type_name("FILE");
  command.add_option("--target", arguments.target, "its translation to score, line by line, plain or gzip")
      ->type_name("FILE");
  command.add_flag("--tokens", arguments.tokens, "also print each piece of the target with its log-probability");
  command.add_flag("--truncate", arguments.truncate,
                   "cut lines of more pieces than data.max_length of the training allowed; otherwise they are refused");
  CLI::Option* keep = command
                          .add_option("--keep-below", arguments.keep_below,
                                      "write the pairs whose mean negative log-probability a token is below this "
                                      "number of nats")
                          ->check(positive_number);
  CLI::Option* output = command.add_option("--output", arguments.output, "two new files for these pairs")
                            ->expected(2)
                            ->type_name("SRC TGT");
  keep->needs(output);
  output->needs(keep);
  command
      .add_option("--batch-tokens", arguments.batch_tokens,
                  "max source and max target tokens per batch; changes no bit of a score in f32 on a CPU")
      ->check(CLI::Range(1, 1'000'000))
      ->capture_default_str();
}

}  // namespace

void add_score(CLI::App& app) {
  CLI::App* command = app.add_subcommand(
      "score",
      "Computes BLEU and chrF of a file, equal to sacreBLEU, with signature; or log-probabilities of sentence pairs");
  const auto comparing = std::make_shared<ScoreArguments>();
  const auto pairs = std::make_shared<PairArguments>();
  const std::string others = command->option_defaults()->get_group();
  command->option_defaults()->group(comparing_group);
  declare_comparing(*command, *comparing);
  command->option_defaults()->group(pairs_group);
  declare_pairs(*command, *pairs);
  command->option_defaults()->group(others);
  command->add_flag("--json", comparing->json, "print JSON: one object; of pairs, an object on each line");
  command->callback([comparing, pairs, command] {
    pairs->json = comparing->json;
    scores_pairs(*command) ? run_pairs(*pairs) : run_score(*comparing);
  });
}

}  // namespace babelring
