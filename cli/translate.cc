#include "cli/commands.h"

#include <fmt/format.h>
#include <unistd.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <cerrno>
#include <cstdint>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <iostream>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "base/failure.h"
#include "base/json.h"
#include "base/options/usage.h"
#include "cli/model_options.h"
#include "cli/translate_service.h"
#include "cli/translation_lines.h"

namespace babelring {
namespace {

struct TranslateArguments {
  ModelOptions model;
  CLI::Option* beam = nullptr;
  std::string input = "-";
  std::string output = "-";
  bool as_json = false;
  std::string invalid = "fail";
  std::string prefix;  // a file; empty: none
  bool moses = false;  // the form of n-best lists
  std::int64_t buffer_lines = 0;
  bool serve = false;
  ServiceLimits limits;
};

/// Writes translations in the form that the command line asks for.
class TranslationOutput {
 public:
  TranslationOutput(const TranslateArguments& arguments, const Vocabulary& vocabulary, std::ostream& out)
      : arguments_(arguments), vocabulary_(vocabulary), out_(out) {}

  void write(std::int64_t number, const std::string& source, const Translation& translation) {
    if (arguments_.as_json) {
      write_json(number, source, translation);
    } else if (arguments_.moses) {
      for (const Rendering& one : translation.n_best) {
        out_ << fmt::format("{} ||| {} ||| F0= {:.6f} ||| {:.6f}{}\n", number - 1, one.text, one.log_probability,
                            one.score, alignment_of(translation, one));
      }
    } else if (arguments_.model.search.translate.beam.n_best == 1) {
      out_ << translation.text() << (translation.n_best.empty() ? "" : alignment_of(translation, translation.n_best[0]))
           << '\n';
    } else {
      int rank = 0;
      for (const Rendering& one : translation.n_best) {
        out_ << fmt::format("{}\t{}\t{:.6f}\t{}{}\n", number, ++rank, one.score, one.text,
                            alignment_of(translation, one));
      }
    }
  }

  const Vocabulary& vocabulary() const { return vocabulary_; }

 private:
  bool aligns() const { return arguments_.model.search.alignment != AlignmentKind::none; }

  /// The last field of a translation; empty unless it is asked for.
  std::string alignment_of(const Translation& translation, const Rendering& rendering) const {
    if (!aligns()) return "";
    return " ||| " + alignment_text(translation, rendering, vocabulary_, arguments_.model.search);
  }

  void write_json(std::int64_t number, const std::string& source, const Translation& translation) {
    json::array n_best;
    for (const Rendering& rendering : translation.n_best) {
      json::object one = {{"text", rendering.text},
                          {"score", rendering.score},
                          {"log_probability", rendering.log_probability},
                          {"complete", rendering.complete}};
      tell_scores(arguments_.model.search, rendering, vocabulary_, one);
      if (aligns()) add_alignment(one, translation, rendering, vocabulary_, arguments_.model.search.alignment);
      n_best.push_back(std::move(one));
    }
    json::object line = {{"line", number},
                         {"source", source},
                         {"text", translation.text()},
                         {"parts", translation.parts},
                         {"n_best", std::move(n_best)}};
    if (!arguments_.model.search.terms.empty()) line["terms"] = terms_json(translation);
    out_ << to_text(line) << '\n';
  }

  const TranslateArguments& arguments_;
  const Vocabulary& vocabulary_;
  std::ostream& out_;
};

/// Opens and truncates the output file. Call it last, after all other checks.
void open_output(const TranslateArguments& arguments, std::ofstream& file) {
  std::error_code absent;
  if (std::filesystem::is_regular_file(arguments.output, absent) &&
      std::filesystem::equivalent(arguments.input, arguments.output, absent)) {
    throw UsageFailure(fmt::format("--output: {} is also the input, expected another file", arguments.output));
  }
  errno = 0;
  file.open(arguments.output);
  if (!file) fail("{}: cannot be written: {}", arguments.output, std::strerror(errno));
}

/// The prefixes of the next lines of the input.
class PrefixInput {
 public:
  explicit PrefixInput(const std::string& file) : file_(file), input_(file, Invalid::fail) {}

  /// Fewer at the end and before a line that cannot be read; the next call then throws Failure.
  std::vector<Prefix> next(std::size_t lines) {
    std::vector<Prefix> prefixes;
    for (std::string& text : input_.next(static_cast<std::int64_t>(lines))) {
      prefixes.push_back({std::move(text), fmt::format("{}:{}", file_, ++read_)});
    }
    if (prefixes.empty()) fail("{}: found {} lines, expected one for each line of the input", file_, read_);
    return prefixes;
  }
  /// Throws Failure if the file has more lines.
  void require_end() {
    if (!input_.next(1).empty()) {
      fail("{}: found more than {} lines, expected one for each line of the input", file_, read_);
    }
  }

 private:
  std::string file_;
  TranslationInput input_;
  std::int64_t read_ = 0;
};

/// Takes the tags out of lines, of which the first has this number. Returns the reason why the line after those of
/// `marked` cannot be read, or nothing.
std::optional<std::string> read_marked(const std::string& name, std::int64_t number,
                                       const std::vector<std::string>& lines, MarkupForm form,
                                       std::vector<MarkedLine>& marked) {
  for (const std::string& line : lines) {
    auto read = read_markup(line, form);
    if (!read) return fmt::format("{}:{}: {}", name, number + std::ssize(marked), read.error());
    marked.push_back(std::move(*read));
  }
  return std::nullopt;
}

/// Translates lines, of which the first has this number, from 0, with their prefixes. A line whose prefix cannot be
/// ends them: then `fault` says why, and the translations are those of the lines before.
std::vector<Translation> translate_prefixed(Translator& translator, const Vocabulary& vocabulary,
                                            const std::vector<std::string>& lines, std::span<const Prefix> prefixes,
                                            const TranslateOptions& options, std::int64_t number,
                                            std::optional<std::string>& fault) {
  std::vector<std::vector<std::int32_t>> ids;
  for (std::size_t i = 0; i < prefixes.size(); ++i) ids.push_back(vocabulary.encode(lines[i]));
  const std::vector<std::span<const std::int32_t>> sources(ids.begin(), ids.end());
  SourceLines whole{.ids = sources, .texts = lines, .prefixes = prefixes, .first = number};
  if (auto wrong = translator.wrong_prefix(whole, options)) {
    fault = std::move(wrong->reason);
    whole.ids = whole.ids.first(wrong->line);
    whole.prefixes = whole.prefixes.first(wrong->line);
  }
  return translator.translate_lines(whole, options);
}

void translate_lines(const TranslateArguments& arguments, TranslationInput& input, Translator& translator,
                     const TranslateOptions& options, TranslationOutput& output, std::ostream& out) {
  // At a terminal translate line by line. For files use large buffers, sorted by length, which is faster.
  const bool interactive = arguments.input == "-" && isatty(STDIN_FILENO) == 1;
  const std::int64_t at_once = arguments.buffer_lines > 0 ? arguments.buffer_lines : interactive ? 1 : 10000;
  std::int64_t number = 0;
  LineCounts counts(options);
  std::optional<PrefixInput> prefixes;
  if (!arguments.prefix.empty()) prefixes.emplace(arguments.prefix);
  for (auto lines = input.next(at_once); !lines.empty(); lines = input.next(at_once)) {
    std::optional<std::string> fault;
    std::vector<Translation> translations;
    if (prefixes) {
      const std::vector<Prefix> begin = prefixes->next(lines.size());
      translations = translate_prefixed(translator, output.vocabulary(), lines, begin, options, number, fault);
    } else if (arguments.model.search.markup == MarkupForm::none) {
      translations = translator.translate(lines, options, {}, number);
    } else {
      std::vector<MarkedLine> marked;
      fault = read_marked(input.name(), number + 1, lines, arguments.model.search.markup, marked);
      translations = translate_marked(translator, output.vocabulary(), marked, options, number);
    }
    errno = 0;
    for (std::size_t i = 0; i < translations.size(); ++i) {
      counts.add(++number, translations[i]);
      output.write(number, lines[i], translations[i]);
    }
    out.flush();
    if (!out) {
      fail("{}: cannot be written{}", arguments.output == "-" ? "standard output" : arguments.output,
           errno == 0 ? "" : fmt::format(": {}", std::strerror(errno)));
    }
    if (fault) throw UsageFailure(*fault);
    if (translations.size() < lines.size()) prefixes->next(1);  // throws the reason
  }
  if (prefixes) prefixes->require_end();
  counts.report();
  input.warn_of_replaced();
}

void check_output_form(const TranslateArguments& arguments) {
  const TranslateChoices& search = arguments.model.search;
  const char* needs_json = search.piece_scores ? "--piece-scores" : search.word_scores ? "--word-scores" : nullptr;
  if (needs_json != nullptr && !arguments.as_json) {
    throw UsageFailure(fmt::format("{}: found no --json, in which they are told", needs_json));
  }
  if (arguments.as_json && arguments.moses) {
    throw UsageFailure("--n-best-format: found moses and --json, expected one form");
  }
  if (!arguments.prefix.empty() && search.markup != MarkupForm::none) {
    throw UsageFailure("--prefix: found --markup, expected one of them");
  }
  const bool in_columns = search.translate.beam.n_best > 1 && !arguments.as_json && !arguments.moses;
  if (in_columns && search.translate.keep_spacing) {
    throw UsageFailure("--keep-spacing: found n-best lists with tabs between columns, expected --json or moses");
  }
}

void translate(TranslateArguments& arguments) {
  const BeamOptions& beam = arguments.model.search.translate.beam;
  choose_search(arguments.model.search, arguments.beam->count() > 0);
  if (!arguments.model.search.translate.sample && beam.n_best > beam.beam) {
    throw UsageFailure(
        fmt::format("--n-best: found {}, expected at most --beam, {} (`nmt translate --help` lists the options)",
                    beam.n_best, beam.beam));
  }
  check_output_form(arguments);
  TranslationInput input(arguments.input, arguments.invalid == "replace" ? Invalid::replace : Invalid::fail,
                         arguments.model.search.markup);
  const std::unique_ptr<Backend> backend = arguments.model.make_backend();
  const LoadedEnsemble ensemble = arguments.model.load_ensemble(*backend);
  const TranslateOptions options = arguments.model.translate_with(ensemble);
  std::ofstream file;
  if (arguments.output != "-") open_output(arguments, file);
  Translator translator = ensemble.translator(*backend);
  std::ostream& out = arguments.output == "-" ? std::cout : file;
  TranslationOutput output(arguments, *ensemble.models.front().vocabulary, out);
  translate_lines(arguments, input, translator, options, output, out);
}

}  // namespace

void add_translate(CLI::App& app) {
  CLI::App* command = app.add_subcommand("translate", "Translates text line by line with a checkpoint");
  const auto arguments = std::make_shared<TranslateArguments>();
  arguments->model.declare(*command, Models::ensemble);
  arguments->model.declare_device(*command);
  command->add_option("--input", arguments->input, "input file, plain or compressed; -: standard input")
      ->capture_default_str();
  command->add_option("--output", arguments->output, "output file; -: standard output")->capture_default_str();
  declare(*command, answer_options(arguments->model.search));
  arguments->model.declare_sampling(*command);
  arguments->beam = command->get_option("--beam");
  add_word_option(
      *command, "--n-best-format", {"tabs", "moses"}, "tabs",
      [arguments](std::size_t index) { arguments->moses = index == 1; },
      "form of n-best lists: tabs; or moses: LINE ||| TEXT ||| F0= LOG-PROBABILITY ||| SCORE, lines from 0");
  command
      ->add_option("--prefix", arguments->prefix,
                   "a file whose line N is the beginning of the translation of line N, which may end inside a word; an "
                   "empty line: any")
      ->type_name("FILE")
      ->check(existing_file);
  command
      ->add_option(
          "--invalid", arguments->invalid,
          "invalid UTF-8 and lines over 1 MiB: fail, after translating the lines before, or replace the bytes by "
          "U+FFFD and cut the line to 64 KiB")
      ->check(CLI::IsMember({"fail", "replace"}))
      ->capture_default_str();
  command->add_flag("--json", arguments->as_json, "print one JSON object per line, with scores");
  command
      ->add_option("--buffer-lines", arguments->buffer_lines,
                   "lines read before translating; 0: 1 at a terminal, otherwise 10000")
      ->check(CLI::Range(0, 1'000'000'000))
      ->capture_default_str();
  CLI::Option* prefix = command->get_option("--prefix");
  CLI::Option* serve = command->add_flag(
      "--serve", arguments->serve, "serve requests, JSON lines on standard input, until end of file (docs/formats.md)");
  prefix->excludes(serve);
  command->add_option("--memory-mb", arguments->limits.memory_mb, "with --serve: max address space; 0: no limit")
      ->check(CLI::Range(0, 1 << 30))
      ->needs(serve);
  command
      ->add_flag("--end-with-parent", arguments->limits.end_with_parent,
                 "with --serve: terminate when the parent process ends")
      ->needs(serve);
  command->callback([arguments] {
    if (arguments->serve) {
      serve_translations(arguments->model, arguments->limits, std::cin, std::cout);
    } else {
      translate(*arguments);
    }
  });
}

}  // namespace babelring
