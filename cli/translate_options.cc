#include "cli/translate_options.h"

#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <boost/json/array.hpp>
#include <cmath>
#include <optional>
#include <type_traits>

#include "base/failure.h"
#include "base/log.h"
#include "base/options/usage.h"
#include "nmt/data/line_reader.h"
#include "nmt/data/text.h"

namespace babelring {
namespace {

// More would only make a request long: a process reads it before it answers.
constexpr std::size_t max_texts = 1000;

template <class Enum>
TranslateOption::Words words(Enum& member, const Choices<std::type_identity_t<Enum>>& choices) {
  return {.allowed = words_of(choices),
          .initial = word_of(choices, member),
          .choose = [&member, choices](std::size_t index) { member = choices[index].second; }};
}

/// Calls use(line) with each line of a text file that is not empty.
void for_each_line(const std::string& file, const std::function<void(const RawLine& line)>& use) {
  LineReader reader(file);
  RawLine line;
  for (;;) {
    const auto read = reader.read(line);
    if (!read) fail("{}", read.error());
    if (!*read) return;
    if (line.over_long || find_invalid_utf8(line.text) != std::string::npos) {
      fail("{}:{}: found other bytes, expected a line of UTF-8", file, line.number);
    }
    if (!line.text.empty()) use(line);
  }
}

std::vector<std::string> texts_of(const std::string& file) {
  std::vector<std::string> texts;
  for_each_line(file, [&](const RawLine& line) { texts.push_back(line.text); });
  return texts;
}

std::vector<Term> terms_of(const std::string& file) {
  std::vector<Term> terms;
  for_each_line(file, [&](const RawLine& line) {
    const std::size_t tab = line.text.find('\t');
    const auto blank = [&](std::size_t begin, std::size_t count) {
      return line.text.substr(begin, count).find_first_not_of(' ') == std::string::npos;
    };
    const bool is_pair = tab != std::string::npos && line.text.find('\t', tab + 1) == std::string::npos;
    if (!is_pair || blank(0, tab) || blank(tab + 1, std::string::npos)) {
      throw UsageFailure(fmt::format("{}:{}: found '{:.100}', expected a term, a tab and its translation", file,
                                     line.number, printable(line.text)));
    }
    terms.emplace_back(line.text.substr(0, tab), line.text.substr(tab + 1));
  });
  return terms;
}

std::string name_in_request(const TranslateOption& option) {
  std::string name = option.name;
  std::ranges::replace(name, '-', '_');
  return name;
}

[[noreturn]] void refuse(const std::string& name, const json::value& value, const std::string& expected) {
  throw UsageFailure(fmt::format("{}: found {:.200}, expected {}", name, printable(to_text(value)), expected));
}

/// Reads a member of a request into the option's value.
class MemberReader {
 public:
  MemberReader(const TranslateOption& option, const json::value& value)
      : option_(option), name_(name_in_request(option)), value_(value) {}

  void operator()(int* member) const { *member = static_cast<int>(integer()); }
  void operator()(std::int64_t* member) const { *member = integer(); }
  void operator()(double* member) const {
    const double number = value_.is_number() ? value_.to_number<double>() : option_.low - 1;
    if (!in_range(number)) refuse(name_, value_, fmt::format("a number from {} to {}", option_.low, high()));
    *member = number;
  }
  void operator()(bool* member) const {
    if (!value_.is_bool()) refuse(name_, value_, "true or false");
    *member = value_.get_bool();
  }
  void operator()(TranslateOption::Texts* member) const {
    const bool fits = value_.is_array() && value_.get_array().size() <= max_texts &&
                      std::ranges::all_of(value_.get_array(), [](const json::value& text) { return text.is_string(); });
    if (!fits) refuse(name_, value_, fmt::format("an array of at most {} strings", max_texts));
    member->clear();
    for (const json::value& text : value_.get_array()) member->emplace_back(std::string_view(text.get_string()));
  }
  void operator()(TranslateOption::Terms* member) const {
    const auto is_term = [](const json::value& term) {
      return term.is_array() && term.get_array().size() == 2 &&
             std::ranges::all_of(term.get_array(), [](const json::value& side) { return side.is_string(); });
    };
    const bool fits =
        value_.is_array() && value_.get_array().size() <= max_texts && std::ranges::all_of(value_.get_array(), is_term);
    if (!fits) refuse(name_, value_, fmt::format("an array of at most {} pairs of strings", max_texts));
    member->clear();
    for (const json::value& term : value_.get_array()) {
      member->emplace_back(term.get_array()[0].get_string(), term.get_array()[1].get_string());
    }
  }
  void operator()(const TranslateOption::Words& words) const {
    const auto found = value_.is_string() ? std::ranges::find(words.allowed, std::string_view(value_.get_string()))
                                          : words.allowed.end();
    if (found == words.allowed.end()) refuse(name_, value_, fmt::format("{}", fmt::join(words.allowed, "|")));
    words.choose(static_cast<std::size_t>(found - words.allowed.begin()));
  }

 private:
  double high() const { return std::min(option_.high, option_.high_in_request); }
  bool in_range(double number) const { return number >= option_.low && number <= high(); }
  std::int64_t integer() const {
    if (!value_.is_int64() || !in_range(static_cast<double>(value_.get_int64()))) {
      refuse(name_, value_, fmt::format("an integer from {} to {}", option_.low, high()));
    }
    return value_.get_int64();
  }

  const TranslateOption& option_;
  std::string name_;
  const json::value& value_;
};

void declare_option(CLI::App& command, const TranslateOption& option) {
  const auto add = [&]<class Value>(const Value& value) {
    const std::string name = "--" + option.name + (option.alias.empty() ? "" : ",--" + option.alias);
    if constexpr (std::is_same_v<Value, TranslateOption::Words>) {
      add_word_option(command, name, value.allowed, value.initial, value.choose, option.help);
    } else if constexpr (std::is_same_v<Value, TranslateOption::Texts*>) {
      command
          .add_option_function<std::string>(
              name, [value](const std::string& file) { *value = texts_of(file); }, option.help)
          ->type_name("FILE")
          ->check(existing_file);
    } else if constexpr (std::is_same_v<Value, TranslateOption::Terms*>) {
      command
          .add_option_function<std::string>(
              name, [value](const std::string& file) { *value = terms_of(file); }, option.help)
          ->type_name("FILE")
          ->check(existing_file);
    } else if constexpr (std::is_same_v<Value, bool*>) {
      command.add_flag(name, *value, option.help);
    } else {
      using Number = std::remove_pointer_t<Value>;
      command.add_option(name, *value, option.help)
          ->check(CLI::Range(static_cast<Number>(option.low), static_cast<Number>(option.high)))
          ->capture_default_str();
    }
  };
  std::visit(add, option.value);
}

}  // namespace

std::vector<TranslateOption> search_options(TranslateChoices& choices) {
  TranslateOptions& translate = choices.translate;
  BeamOptions& beam = translate.beam;
  return {
      {"beam", "beam size: hypotheses per sentence; 1: greedy", &beam.beam, 1, 1000, 100},
      {"length-penalty", "exponent; larger values favor longer translations; 0: none", &beam.length_penalty, 0, 10, 10},
      {"length-formula",
       "divide the log-probability of n tokens, with </s>, by n^penalty (power) or ((5+n)/6)^penalty (gnmt), or by "
       "(n-1)^penalty (pieces)",
       words(beam.length_formula,
             {{"power", LengthFormula::power}, {"gnmt", LengthFormula::gnmt}, {"pieces", LengthFormula::pieces}})},
      {"max-length-factor", "max tokens of a translation, as a multiple of the source tokens", &beam.max_length_factor,
       0, 100, 10},
      {"max-length-extra", "tokens added to that maximum", &beam.max_length_extra, 0, 10000, 512},
      {"min-length", "min pieces of a translation, or of each part of a line that is split", &beam.rules.min_length, 0,
       10000, 512},
      {"no-repeat-ngram", "no sequence of N pieces occurs twice in a translation; 0: any may",
       &beam.rules.no_repeat_ngram, 0, 100, 100},
      {"repetition-penalty", "multiplies the log-probability of each piece that occurred before; 1: none",
       &beam.rules.repetition_penalty, 1, 100, 100},
      {"suppress",
       "words that no translation has, one a line; piece:TEXT, and a text with ▁, name a piece of the vocabulary",
       &choices.suppressed},
      {"glossary",
       "terms with their translations, one a line, with a tab between them; a line that has the term gets it",
       &choices.terms},
      {"unk-penalty", "subtracted from the log-probability of <unk>; 1000 forbids <unk>", &beam.unk_penalty, 0, 1e6,
       1e6},
      {"batch-tokens", "max source tokens per batch", &translate.batch_tokens, 1, 1e6},
      {"batch-sentences", "max sentences per batch", &translate.batch_sentences, 1, 1e6},
      {"max-source",
       "max pieces per segment; longer lines are split at sentence ends, or between words; at most data.max_length of "
       "the training",
       &translate.max_source_pieces, 1, 1e6},
      {"split",
       "lines that are split into sentences, which are translated one by one: auto: those with more pieces or "
       "sentences than lines of the training text usually had; always: all of several sentences; long: those over "
       "--max-source, for models trained on documents",
       words(choices.split,
             {{"auto", SplitLines::automatic}, {"always", SplitLines::always}, {"long", SplitLines::long_lines}})},
      {"keep-spacing",
       "keep the white space before, between and after the sentences of a line that is split, and of any",
       &translate.keep_spacing}};
}

void declare(CLI::App& command, std::span<const TranslateOption> options) {
  for (const TranslateOption& option : options) declare_option(command, option);
}

std::vector<TranslateOption> answer_options(TranslateChoices& choices) {
  return {
      {.name = "n-best",
       .help = "translations per line; above 1 prints line, rank, score and text, separated by tabs",
       .value = &choices.translate.beam.n_best,
       .low = 1,
       .high = 1000,
       .high_in_request = 100,
       .alias = "nbest"},
      {"alignment",
       "adds what of the source a translation renders: hard: pairs of words, 0-0 1-1; soft: the attention of each "
       "piece to those of the source and to </s>; by the (first) model's attention, so approximate",
       words(choices.alignment,
             {{"none", AlignmentKind::none}, {"hard", AlignmentKind::hard}, {"soft", AlignmentKind::soft}})},
      {"alignment-unit", "units of the pairs of --alignment hard in text; --json has both",
       words(choices.alignment_unit, {{"words", AlignmentUnit::words}, {"pieces", AlignmentUnit::pieces}})},
      {"alignment-layer", "decoder layer whose attention aligns, from 1; 0: the one before the last, of two the last",
       &choices.alignment_layer, 0, 100, 100},
      {"alignment-head", "its attention head, from 1; 0: the mean of all", &choices.alignment_head, 0, 256, 256},
      {"markup",
       "the lines have tags, which are put around the aligned words: html, or xliff, the content of a <source>; "
       "tags that are not closed or cross are errors",
       words(choices.markup, {{"none", MarkupForm::none}, {"html", MarkupForm::html}, {"xliff", MarkupForm::xliff}})},
      {"piece-scores", "with --json: the log-probability of each piece", &choices.piece_scores},
      {"word-scores", "with --json: the log-probability and the confidence of each word", &choices.word_scores}};
}

bool read_member(std::string_view name, const json::value& value, std::span<const TranslateOption> options) {
  const auto is_named = [&](const TranslateOption& option) {
    const bool is_number = option.low < option.high;
    return (name_in_request(option) == name || (!name.empty() && option.alias == name)) &&
           !(is_number && option.high_in_request < option.low);
  };
  const auto option = std::ranges::find_if(options, is_named);
  if (option == options.end()) return false;
  if (!value.is_null()) std::visit(MemberReader(*option, value), option->value);
  return true;
}

namespace {

/// The id of a piece that is no control piece. A search is enough for the few pieces that anybody names.
std::int32_t id_of(std::string_view piece, const Vocabulary& vocabulary) {
  for (std::int32_t id = first_free_id; id < vocabulary.size(); ++id) {
    if (vocabulary.piece(id) == piece) return id;
  }
  throw UsageFailure(fmt::format("suppress: found '{}', which is no piece of the vocabulary", printable(piece)));
}

}  // namespace

void suppress(std::span<const std::string> texts, const Vocabulary& vocabulary, TokenRules& rules) {
  constexpr std::string_view mark = "piece:", space = "▁";
  for (const std::string& text : texts) {
    if (text.starts_with(mark) || text.find(space) != std::string::npos) {
      rules.suppressed.push_back(
          id_of(std::string_view(text).substr(text.starts_with(mark) ? mark.size() : 0), vocabulary));
      continue;
    }
    std::vector<std::int32_t> ids = vocabulary.encode(text, TextSide::target);
    if (ids.empty() || std::ranges::find(ids, unk_id) != ids.end()) {
      throw UsageFailure(fmt::format("suppress: found '{}', for which the vocabulary has no pieces", printable(text)));
    }
    if (ids.size() == 1) {
      rules.suppressed.push_back(ids.front());
    } else {
      rules.suppressed_sequences.push_back(std::move(ids));
    }
  }
}

std::optional<AttentionChoice> TranslateChoices::attention() const {
  if (alignment == AlignmentKind::none && markup == MarkupForm::none) return std::nullopt;
  return AttentionChoice{.layer = static_cast<int>(alignment_layer) - 1, .head = static_cast<int>(alignment_head) - 1};
}

}  // namespace babelring
