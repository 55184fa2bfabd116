#include "nmt/cli/translate.h"

#include <fmt/format.h>
#include <spdlog/spdlog.h>
#include <unistd.h>

#include <CLI/CLI.hpp>
#include <filesystem>
#include <fstream>
#include <iostream>
#include <memory>
#include <optional>

#include "nmt/base/json.h"
#include "nmt/cli/model_options.h"
#include "nmt/cli/translate_service.h"
#include "nmt/data/text.h"

namespace babelring {

namespace {

struct TranslateArguments {
  ModelOptions model;
  std::string input = "-";
  std::string output = "-";
  int n_best = 1;
  bool as_json = false;
  std::int64_t buffer_lines = 0;
  bool serve = false;
  ServiceLimits limits;
};

/// The lines of a file or of standard input, read in batches.
class LineSource {
 public:
  explicit LineSource(const std::string& name) : name_(name == "-" ? "standard input" : name) {
    if (name == "-") return;
    if (std::filesystem::is_directory(name)) fail("{}: cannot be read: it is a folder", name);
    file_.open(name);
    if (!file_) fail("{}: cannot be read", name);
  }
  /// At most `count` lines; empty at the end. Throws Failure at text that is not UTF-8, and if it cannot be read.
  std::vector<std::string> next(std::int64_t count) {
    std::istream& stream = file_.is_open() ? file_ : std::cin;
    std::vector<std::string> lines;
    std::string line;
    while (std::ssize(lines) < count && std::getline(stream, line)) {
      ++number_;
      if (!line.empty() && line.back() == '\r') line.pop_back();
      const std::size_t invalid = find_invalid_utf8(line);
      if (invalid != std::string::npos) fail("{}:{}: byte {} is not UTF-8", name_, number_, invalid + 1);
      lines.push_back(line);
    }
    if (stream.bad()) fail("{}: cannot be read after line {}", name_, number_);
    return lines;
  }

 private:
  std::string name_;
  std::ifstream file_;
  std::int64_t number_ = 0;
};

json::object rendering_json(const Rendering& rendering) {
  return {{"text", rendering.text},
          {"score", rendering.score},
          {"log_probability", rendering.log_probability},
          {"complete", rendering.complete}};
}

void print_translation_json(std::ostream& out, std::int64_t number, const std::string& source,
                            const Translation& translation) {
  json::array n_best;
  for (const Rendering& rendering : translation.n_best) n_best.push_back(rendering_json(rendering));
  out << to_text(json::object{{"line", number},
                              {"source", source},
                              {"text", translation.text()},
                              {"cut_pieces", translation.cut_pieces},
                              {"n_best", std::move(n_best)}})
      << '\n';
}

void print_translation(std::ostream& out, std::int64_t number, const Translation& translation, int n_best) {
  if (n_best == 1) {
    out << translation.text() << '\n';
    return;
  }
  int rank = 0;
  for (const Rendering& rendering : translation.n_best) {
    out << fmt::format("{}\t{}\t{:.6f}\t{}\n", number, ++rank, rendering.score, rendering.text);
  }
}

void warn_of_cut(std::int64_t number, const Translation& translation) {
  if (translation.cut_pieces == 0) return;
  spdlog::warn("line {}: {} pieces, only the first {} were translated (--max-source)", number,
               translation.source_pieces, translation.source_pieces - translation.cut_pieces);
}

/// Empties the file, so not before everything else has been found in order.
void open_output(const TranslateArguments& arguments, std::ofstream& file) {
  std::error_code absent;
  if (std::filesystem::is_regular_file(arguments.output, absent) &&
      std::filesystem::equivalent(arguments.input, arguments.output, absent)) {
    throw UsageFailure(fmt::format("--output: {} is the input, expected another file", arguments.output));
  }
  file.open(arguments.output);
  if (!file) fail("{}: cannot be written", arguments.output);
}

void translate(TranslateArguments& arguments) {
  arguments.model.translate.beam.n_best = arguments.n_best;
  LineSource source(arguments.input);
  const std::unique_ptr<Backend> backend = arguments.model.make_backend();
  const LoadedModel loaded = arguments.model.load(*backend);
  std::ofstream file;
  if (arguments.output != "-") open_output(arguments, file);
  Translator translator(*loaded.transformer, loaded.vocabulary, *backend);
  std::ostream& out = arguments.output == "-" ? std::cout : file;
  // A person at a terminal wants each line answered; a file is faster in large buffers, sorted by length.
  const bool interactive = arguments.input == "-" && isatty(STDIN_FILENO) == 1;
  const std::int64_t at_once = arguments.buffer_lines > 0 ? arguments.buffer_lines : interactive ? 1 : 10000;
  std::int64_t number = 0;
  for (auto lines = source.next(at_once); !lines.empty(); lines = source.next(at_once)) {
    const std::vector<Translation> translations = translator.translate(lines, arguments.model.translate);
    for (std::size_t i = 0; i < lines.size(); ++i) {
      warn_of_cut(++number, translations[i]);
      if (arguments.as_json) {
        print_translation_json(out, number, lines[i], translations[i]);
      } else {
        print_translation(out, number, translations[i], arguments.n_best);
      }
    }
    out.flush();
    if (!out) fail("{}: cannot be written", arguments.output == "-" ? "standard output" : arguments.output);
  }
}

}  // namespace

void add_translate(CLI::App& app) {
  CLI::App* command = app.add_subcommand("translate", "Translates text, a line at a time, with a checkpoint");
  const auto arguments = std::make_shared<TranslateArguments>();
  arguments->model.declare(*command);
  arguments->model.declare_device(*command);
  command->add_option("--input", arguments->input, "text file; -: standard input")->capture_default_str();
  command->add_option("--output", arguments->output, "file to write; -: standard output")->capture_default_str();
  command
      ->add_option("--n-best,--nbest", arguments->n_best,
                   "translations of a line; over 1 prints line, rank, score and text, separated by tabs")
      ->capture_default_str();
  command->add_flag("--json", arguments->as_json, "one JSON object a line, with scores");
  command
      ->add_option("--buffer-lines", arguments->buffer_lines,
                   "lines read before translating; 0: one at a terminal, else 10000")
      ->check(CLI::NonNegativeNumber)
      ->capture_default_str();
  CLI::Option* serve = command->add_flag(
      "--serve", arguments->serve, "answer requests, JSON lines on standard input, until it ends (docs/formats.md)");
  command->add_option("--memory-mb", arguments->limits.memory_mb, "with --serve: most address space; 0: no bound")
      ->check(CLI::NonNegativeNumber)
      ->needs(serve);
  command
      ->add_flag("--end-with-parent", arguments->limits.end_with_parent,
                 "with --serve: be killed when the process that started this one ends")
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
