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
  std::int64_t buffer_lines = 0;
  bool serve = false;
  ServiceLimits limits;
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
                              {"parts", translation.parts},
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

void translate_lines(const TranslateArguments& arguments, TranslationInput& input, Translator& translator,
                     const TranslateOptions& options, std::ostream& out) {
  // At a terminal translate line by line. For files use large buffers, sorted by length, which is faster.
  const bool interactive = arguments.input == "-" && isatty(STDIN_FILENO) == 1;
  const std::int64_t at_once = arguments.buffer_lines > 0 ? arguments.buffer_lines : interactive ? 1 : 10000;
  std::int64_t number = 0;
  LineCounts counts(options);
  for (auto lines = input.next(at_once); !lines.empty(); lines = input.next(at_once)) {
    const std::vector<Translation> translations = translator.translate(lines, options, number);
    errno = 0;
    for (std::size_t i = 0; i < lines.size(); ++i) {
      counts.add(++number, translations[i]);
      if (arguments.as_json) {
        print_translation_json(out, number, lines[i], translations[i]);
      } else {
        print_translation(out, number, translations[i], options.beam.n_best);
      }
    }
    out.flush();
    if (!out) {
      fail("{}: cannot be written{}", arguments.output == "-" ? "standard output" : arguments.output,
           errno == 0 ? "" : fmt::format(": {}", std::strerror(errno)));
    }
  }
  counts.report();
  input.warn_of_replaced();
}

void translate(TranslateArguments& arguments) {
  const BeamOptions& beam = arguments.model.search.translate.beam;
  choose_search(arguments.model.search, arguments.beam->count() > 0);
  if (!arguments.model.search.translate.sample && beam.n_best > beam.beam) {
    throw UsageFailure(
        fmt::format("--n-best: found {}, expected at most --beam, {} (`nmt translate --help` lists the options)",
                    beam.n_best, beam.beam));
  }
  TranslationInput input(arguments.input, arguments.invalid == "replace" ? Invalid::replace : Invalid::fail);
  const std::unique_ptr<Backend> backend = arguments.model.make_backend();
  const LoadedEnsemble ensemble = arguments.model.load_ensemble(*backend);
  const TranslateOptions options = arguments.model.translate_with(ensemble);
  std::ofstream file;
  if (arguments.output != "-") open_output(arguments, file);
  Translator translator = ensemble.translator(*backend);
  translate_lines(arguments, input, translator, options, arguments.output == "-" ? std::cout : file);
}

}  // namespace

void add_translate(CLI::App& app) {
  CLI::App* command = app.add_subcommand("translate", "Translates text line by line with a checkpoint");
  const auto arguments = std::make_shared<TranslateArguments>();
  arguments->model.declare(*command);
  arguments->model.declare_ensemble(*command);
  arguments->model.declare_device(*command);
  command->add_option("--input", arguments->input, "input file, plain or gzip; -: standard input")
      ->capture_default_str();
  command->add_option("--output", arguments->output, "output file; -: standard output")->capture_default_str();
  declare(*command, answer_options(arguments->model.search));
  arguments->model.declare_sampling(*command);
  arguments->beam = command->get_option("--beam");
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
  CLI::Option* serve = command->add_flag(
      "--serve", arguments->serve, "serve requests, JSON lines on standard input, until end of file (docs/formats.md)");
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
