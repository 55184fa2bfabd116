#include "cli/commands.h"

#include <fmt/core.h>
#include <spdlog/spdlog.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "base/failure.h"
#include "base/json.h"
#include "base/options/usage.h"
#include "nmt/data/line_reader.h"
#include "nmt/metrics/bleu.h"
#include "nmt/metrics/chrf.h"

namespace babelring {

namespace {

/// The parsed command line.
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

}  // namespace

void add_score(CLI::App& app) {
  CLI::App* command =
      app.add_subcommand("score", "Computes BLEU and chrF of a file, equal to sacreBLEU, with signature");
  const auto arguments = std::make_shared<ScoreArguments>();
  command->add_option("--reference", arguments->references, "reference text, plain or gzip; may be repeated")
      ->required()
      ->type_name("FILE");
  command
      ->add_option("--hypothesis", arguments->hypothesis,
                   "text to score, one line per reference line; a byte-order mark is skipped")
      ->required()
      ->type_name("FILE");
  command->add_option("--metrics", arguments->metrics, "comma-separated: bleu, chrf, chrf++")
      ->delimiter(',')
      ->check(CLI::IsMember({"bleu", "chrf", "chrf++"}))
      ->capture_default_str();
  add_choice(*command, "--tokenize", arguments->tokenizer, tokenizers(), tokenizer_help);
  command->add_flag("--lowercase", arguments->lowercase, "ignore case");
  command->add_option("--smooth", arguments->smoothing, "BLEU smoothing of zero precisions")
      ->check(CLI::IsMember({"exp", "none", "floor", "add-k"}))
      ->capture_default_str();
  command
      ->add_option("--smooth-value", arguments->smoothing_value, "value for floor (default 0.1) and add-k (default 1)")
      ->check(CLI::NonNegativeNumber);
  command->add_flag("--sentence", arguments->sentence, "also print the score of each line (BLEU with effective order)");
  command->add_flag("--json", arguments->json, "print one JSON object");
  command->callback([arguments] { run_score(*arguments); });
}

}  // namespace babelring
