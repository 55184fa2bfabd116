#include "cli/score_texts.h"

#include <fmt/ranges.h>
#include <spdlog/spdlog.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <filesystem>
#include <memory>
#include <optional>
#include <utility>

#include "base/failure.h"
#include "base/json.h"
#include "base/log.h"
#include "base/options/usage.h"
#include "cli/runs/table.h"
#include "nmt/data/line_reader.h"
#include "nmt/metrics/significance.h"

namespace babelring {

namespace {

using Lines = std::vector<std::string>;

constexpr double significance_level = 0.05;

/// "nrefs:1|bs:1000|seed:12345|case:…": where sacreBLEU has it.
std::string with_resampling(const std::string& signature, const std::string& resampling) {
  if (resampling.empty()) return signature;
  std::string longer = signature;
  return longer.insert(std::min(signature.find('|'), signature.size()), "|" + resampling);
}

/// The files that an argument names: itself, or a comma-separated list.
Lines files_of(const std::string& argument) {
  if (argument.find(',') == argument.npos || std::filesystem::exists(argument)) return {argument};
  Lines files;
  for (std::size_t begin = 0; begin <= argument.size();) {
    const std::size_t end = std::min(argument.find(',', begin), argument.size());
    files.push_back(argument.substr(begin, end - begin));
    begin = end + 1;
  }
  return files;
}

}  // namespace

/// The texts to compare.
struct TextScores::Texts {
  Lines names;  // of the systems
  std::vector<Lines> hypotheses, references;

  std::size_t lines() const { return references.front().size(); }
};

/// The score of one system by one metric.
struct TextScores::Score {
  std::string name, details, signature;
  double value = 0;
  bool best = false;   // of several systems
  bool equal = false;  // to the first system, sentence by sentence
  std::optional<ConfidenceInterval> interval;
  std::optional<double> p_value;
  std::vector<double> sentences;  // on request

  std::string interval_text() const {
    return interval ? fmt::format("{:.2f} ± {:.2f}", interval->mean, interval->half_width) : "";
  }
  std::string text() const {
    return fmt::format("{} = {:.2f}{}{}", name, value, interval ? fmt::format(" (μ = {})", interval_text()) : "",
                       details.empty() ? "" : " " + details);
  }
  std::string p_text() const {
    if (equal) return "equal";
    return p_value ? fmt::format("{:.4f}{}", *p_value, *p_value < significance_level ? "*" : " ") : "";
  }
  json::object to_json() const {
    json::object entry = {{"name", name}, {"score", value}, {"signature", signature}, {"text", text()}};
    if (interval) {
      entry["mean"] = interval->mean;
      entry["half_width"] = interval->half_width;
    }
    if (p_value) entry["p_value"] = *p_value;
    if (equal) entry["equal"] = true;
    if (best) entry["best"] = true;
    if (!sentences.empty()) entry["sentences"] = json::array(sentences.begin(), sentences.end());
    return entry;
  }
};

void add_tokenize(CLI::App& app, TokenizerChoice& choice) {
  const std::vector<std::string> words = TokenizerChoice::words();
  const std::string set = fmt::format("{{{}}}", fmt::join(words, ","));
  const auto check = [words, set](const std::string& text) {
    const bool model = std::any_of(words.begin(), words.end(), [&](const std::string& word) {
      return word.ends_with(":FILE") && text.starts_with(word.substr(0, word.find(':') + 1));
    });
    return model || parse_tokenizer(text).ok() ? "" : text + " not in " + set;
  };
  const auto open = [&choice](const std::string& text) {
    Result<TokenizerChoice> parsed = TokenizerChoice::parse(text);
    if (!parsed) throw UsageFailure("--tokenize: " + parsed.error());
    choice = std::move(parsed).value();
  };
  app.add_option_function<std::string>(
         "--tokenize", open,
         std::string(tokenizer_help) + "; NAME:FILE for the pieces of a SentencePiece model, which we do not have")
      ->check(CLI::Validator(check, set))
      ->default_str(std::string(name_of(choice.tokenizer)));
}

void TextScores::declare(CLI::App& command) {
  command.add_option("--reference", references_, "reference text, plain or compressed; may be repeated")
      ->type_name("FILE");
  command
      .add_option("--hypothesis", hypotheses_,
                  "text to score, one line per reference line; a byte-order mark is skipped. Several, repeated or "
                  "separated by commas: a table of systems")
      ->type_name("FILE");
  command.add_option("--metrics", metrics_, "comma-separated: bleu, chrf, chrf++, ter")
      ->delimiter(',')
      ->check(CLI::IsMember(words_of(metrics())))
      ->default_str("bleu");
  add_tokenize(command, tokenizer_);
  command.add_flag("--lowercase", lowercase_, "ignore case in BLEU and chrF");
  declare_metrics(command);
  command.add_flag("--sentence", sentence_, "also print the score of each line (BLEU with effective order)");
  declare_tests(command);
}

void TextScores::declare_metrics(CLI::App& command) {
  command.add_option("--smooth", smoothing_, "BLEU smoothing of zero precisions")
      ->check(CLI::IsMember({"exp", "none", "floor", "add-k"}))
      ->capture_default_str();
  command
      .add_option("--smooth-value", options_.bleu.smoothing_value,
                  "value for floor (default 0.1) and add-k (default 1)")
      ->check(CLI::NonNegativeNumber);
  const auto order = [&](const char* name, int& member, int min, int max, const char* help) {
    command.add_option(name, member, help)->check(CLI::Range(min, max))->capture_default_str();
  };
  order("--chrf-char-order", options_.chrf.char_order, 1, 100, "longest character n-grams of chrF");
  order("--chrf-word-order", options_.chrf.word_order, 0, 100, "longest word n-grams of chrF; chrf++ has 2");
  order("--chrf-beta", options_.chrf.beta, 1, 1000, "weight of recall against precision in chrF");
  command.add_flag("--chrf-whitespace", options_.chrf.whitespace, "character n-grams of chrF include white space");
  command.add_flag("--chrf-eps-smoothing", options_.chrf.eps_smoothing,
                   "chrF as the mean of all orders, as chrF++.py, NLTK and Moses have it");
  command.add_flag("--ter-normalized", options_.ter.normalized, "TER splits punctuation off words");
  command.add_flag("--ter-no-punct", options_.ter.no_punctuation, "TER without punctuation");
  command.add_flag("--ter-asian-support", options_.ter.asian_support,
                   "--ter-normalized and --ter-no-punct apply to Chinese and Japanese characters, too");
  command.add_flag("--ter-case-sensitive", options_.ter.case_sensitive, "TER respects case");
}

void TextScores::declare_tests(CLI::App& command) {
  static const Choices<PairedTest> words = {{"bs", PairedTest::bootstrap}, {"ar", PairedTest::randomization}};
  add_word_option(
      command, "--paired", words_of(words), "", [this](std::size_t index) { paired_ = words[index].second; },
      "test whether each further system differs from the first: bs, paired bootstrap resampling, with confidence "
      "intervals; ar, approximate randomization");
  command.add_flag("--confidence", confidence_, "95 % confidence intervals by bootstrap resampling");
  command
      .add_option("--samples", samples_,
                  "resamples, or trials of ar; default: 1000 for --confidence and bs, 10000 for ar")
      ->check(CLI::Range(std::int64_t{1}, std::int64_t{10'000'000}));
  seed_option_ = command.add_option("--seed", seed_, "seed of the draws, which equal numpy's; sacreBLEU's is 12345")
                     ->capture_default_str();
}

void TextScores::check_options() const {
  if (paired_ != PairedTest::none && hypotheses_.size() < 2) {
    throw UsageFailure("--paired: found 1 system, expected --hypothesis with at least 2 files");
  }
  if (sentence_ && hypotheses_.size() > 1) {
    throw UsageFailure(fmt::format("--sentence: found {} systems, expected 1", hypotheses_.size()));
  }
  const bool resamples = confidence_ || paired_ != PairedTest::none;
  if (!resamples && samples_ > 0) throw UsageFailure("--samples requires --paired or --confidence");
  if (!resamples && seed_option_->count() > 0) throw UsageFailure("--seed requires --paired or --confidence");
}

TextScores::Texts TextScores::read_texts() const {
  Texts texts;
  std::string first;
  for (const auto& file : without_repeats({references_.begin(), references_.end()}, "--reference")) {
    texts.references.push_back(read_text_lines(file));
    if (texts.references.size() == 1) first = file.string();
    if (texts.references.back().size() != texts.lines()) {
      throw UsageFailure(fmt::format("{} has {} lines, {} has {}; expected equal numbers", printable(file.string()),
                                     texts.references.back().size(), printable(first), texts.lines()));
    }
  }
  if (texts.lines() == 0) throw UsageFailure(fmt::format("{} has no lines; expected a reference per line", first));
  for (const std::string& file : hypotheses_) {
    texts.names.push_back(file);
    texts.hypotheses.push_back(read_text_lines(file));
    if (texts.hypotheses.back().size() != texts.lines()) {
      throw UsageFailure(fmt::format("{} has {} lines, {} has {}; expected equal numbers", printable(file),
                                     texts.hypotheses.back().size(), printable(first), texts.lines()));
    }
  }
  return texts;
}

/// Warns where BLEU counts sentences in place of words: by the script, or if it prints as 0 although most character
/// n-grams match, unless the lines are short.
void TextScores::check_tokenizer(const Texts& texts) const {
  const Tokenizer chosen = options_.bleu.tokenizer, fitting = tokenizer_for(texts.references.front());
  if (options_.bleu.segmenter || chosen == fitting) return;
  const bool for_words = chosen == Tokenizer::thirteen_a || chosen == Tokenizer::intl;
  if (for_words && fitting != Tokenizer::thirteen_a) {
    spdlog::warn("--tokenize is {}, but {} is in a script without spaces between words; expected {}", name_of(chosen),
                 references_.front(), fitting == Tokenizer::chinese ? "zh" : "char, or ja-mecab for Japanese");
    return;
  }
  constexpr double prints_as_zero = 0.005, high_chrf = 50;
  const double bleu = Bleu(options_.bleu).corpus(texts.hypotheses.front(), texts.references).score;
  if (bleu >= prints_as_zero) return;
  const double chrf = Chrf().corpus(texts.hypotheses.front(), texts.references);
  if (chrf < high_chrf) return;
  spdlog::warn("BLEU {:.2f} with chrF2 {:.2f}: wrong tokenizer? (--tokenize is {})", bleu, chrf, name_of(chosen));
}

std::int64_t TextScores::samples_for(bool bootstrap) const {
  if (samples_ > 0) return samples_;
  return bootstrap ? 1000 : 10'000;
}

std::string TextScores::resampling_signature() const {
  std::string signature;
  if (confidence_ || paired_ == PairedTest::bootstrap) signature += fmt::format("bs:{}|", samples_for(true));
  if (paired_ == PairedTest::randomization) signature += fmt::format("ar:{}|", samples_for(false));
  return signature.empty() ? "" : signature + fmt::format("seed:{}", seed_);
}

std::vector<TextScores::Score> TextScores::scores_by(const Metric& metric, const Texts& texts) const {
  const bool by_bootstrap = paired_ == PairedTest::bootstrap;
  const std::string signature = with_resampling(metric.signature(texts.references.size()), resampling_signature());
  std::vector<Score> scores;
  std::optional<SentenceStatistics> first;
  std::optional<Bootstrap> first_resamples;
  for (const Lines& hypothesis : texts.hypotheses) {
    SentenceStatistics statistics(metric, hypothesis, texts.references);
    const std::vector<double> sums = statistics.sums();
    Score& score = scores.emplace_back(Score{
        .name = metric.name(), .details = metric.details(sums), .signature = signature, .value = metric.score(sums)});
    for (std::size_t i = 0; sentence_ && i < statistics.sentences(); ++i) {
      score.sentences.push_back(metric.sentence_score(statistics.sentence(i)));
    }
    std::optional<Bootstrap> resamples;
    if (confidence_ || by_bootstrap) {
      resamples.emplace(statistics, Resampling{.samples = samples_for(true), .seed = seed_});
      score.interval = resamples->interval();
    }
    if (!first) {
      first = std::move(statistics);
      first_resamples = std::move(resamples);
      continue;
    }
    score.equal = statistics.equals(*first);
    if (score.equal || paired_ == PairedTest::none) continue;
    score.p_value = by_bootstrap ? resamples->p_value(*first_resamples)
                                 : randomization_p_value(*first, statistics, {samples_for(false), seed_});
  }
  const auto worse = [&](const Score& a, const Score& b) {
    return metric.less_is_better() ? a.value > b.value : a.value < b.value;
  };
  const double best = std::max_element(scores.begin(), scores.end(), worse)->value;
  for (Score& score : scores) score.best = scores.size() > 1 && score.value == best;
  return scores;
}

void TextScores::print_json(const Texts& texts, const std::vector<std::vector<Score>>& by_metric) const {
  json::array systems;
  for (std::size_t i = 0; i < texts.names.size(); ++i) {
    json::array scores;
    for (const std::vector<Score>& of_systems : by_metric) scores.push_back(of_systems[i].to_json());
    systems.push_back(json::object{{"name", texts.names[i]}, {"scores", std::move(scores)}});
  }
  json::object result = {{"lines", texts.lines()}};
  if (systems.size() == 1) {
    result["scores"] = std::move(systems[0].as_object()["scores"]);
  } else {
    result["systems"] = std::move(systems);
  }
  fmt::print("{}\n", to_text(result));
}

void TextScores::print_one(const std::vector<std::vector<Score>>& by_metric) const {
  for (const std::vector<Score>& of_systems : by_metric) {
    const Score& score = of_systems.front();
    for (std::size_t i = 0; i < score.sentences.size(); ++i) {
      fmt::print("{} {} = {:.2f}\n", i + 1, score.name, score.sentences[i]);
    }
    fmt::print("{}\n{}\n", score.text(), score.signature);
  }
}

void TextScores::print_table(const Texts& texts, const std::vector<std::vector<Score>>& by_metric) const {
  std::vector<Table::Column> columns = {{.title = "system", .importance = 100, .shrinks = true}};
  for (const std::vector<Score>& of_systems : by_metric) {
    columns.push_back({.title = of_systems.front().name + "     ", .right = true, .importance = 90});
    columns.push_back({.title = "mean ± 95 %", .right = true, .importance = 50});
    columns.push_back({.title = "p ", .right = true, .importance = 80});
  }
  Table table(std::move(columns));
  const bool tested = paired_ != PairedTest::none;
  for (std::size_t i = 0; i < texts.names.size(); ++i) {
    std::vector<Table::Cell> row = {{printable(texts.names[i])}};
    for (const std::vector<Score>& of_systems : by_metric) {
      const Score& score = of_systems[i];
      row.push_back({fmt::format("{:.2f}{}", score.value, score.best ? " best" : "     ")});
      row.push_back({score.interval_text()});
      row.push_back({i == 0 ? (tested ? "baseline" : "") : score.p_text()});
    }
    table.add(std::move(row));
  }
  table.print(Screen::of_stdout());
  for (const std::vector<Score>& of_systems : by_metric) {
    fmt::print("{}: {}\n", of_systems.front().name, of_systems.front().signature);
  }
  if (!tested) return;
  fmt::print("p: {} against the first system; * below {}; equal: the same statistics in every line\n",
             paired_ == PairedTest::bootstrap ? "paired bootstrap" : "approximate randomization", significance_level);
}

void TextScores::run(bool as_json) {
  Lines files;
  for (const std::string& argument : hypotheses_) {
    for (std::string& file : files_of(argument)) files.push_back(std::move(file));
  }
  hypotheses_ = std::move(files);
  check_options();
  const Texts texts = read_texts();
  options_.bleu.tokenizer = resolved(tokenizer_.tokenizer, texts.references.front());
  options_.bleu.segmenter = tokenizer_.segmenter;
  options_.bleu.smoothing = parse_smoothing(smoothing_).value();
  options_.bleu.lowercase = options_.chrf.lowercase = lowercase_;
  std::vector<std::unique_ptr<Metric>> chosen;
  for (const std::string& word : metrics_) chosen.push_back(make_metric(choice_of(metrics(), word), options_));
  if (std::find(metrics_.begin(), metrics_.end(), "bleu") != metrics_.end()) check_tokenizer(texts);
  std::vector<std::vector<Score>> by_metric;
  for (const std::unique_ptr<Metric>& metric : chosen) by_metric.push_back(scores_by(*metric, texts));
  if (as_json) return print_json(texts, by_metric);
  texts.names.size() == 1 ? print_one(by_metric) : print_table(texts, by_metric);
}

}  // namespace babelring
