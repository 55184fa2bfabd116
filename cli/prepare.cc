#include "cli/commands.h"

#include <fmt/core.h>
#include <spdlog/spdlog.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <filesystem>
#include <memory>
#include <string>
#include <system_error>
#include <utility>
#include <vector>

#include "base/failure.h"
#include "base/names.h"
#include "base/options/usage.h"
#include "cli/model_options.h"
#include "nmt/data/prepare.h"

namespace babelring {

namespace {

using FilePair = std::pair<std::string, std::string>;

/// The parsed command line.
struct PrepareArguments {
  PrepareOptions options;
  std::vector<std::string> train;  // source and target in turn
  FilePair valid, test;
  std::string output, vocabulary, unequal = "refuse";
  bool json = false;
};

TextFiles files(const FilePair& pair) {
  return {pair.first, pair.second};
}

bool is_same_file(const std::string& one, const std::string& other) {
  std::error_code error;
  return std::filesystem::is_regular_file(one, error) && std::filesystem::equivalent(one, other, error);
}

/// The training files as pairs. A pair that is given again, also by other names, counts once: a list that a shell made
/// has links and overlapping patterns.
std::vector<TextFiles> training_files(const std::vector<std::string>& given) {
  if (given.size() % 2 != 0) {
    throw UsageFailure(
        fmt::format("--train: found {} file{}, '{}' is without a target; expected pairs of files, source and target",
                    given.size(), given.size() == 1 ? "" : "s", given.back()));
  }
  std::vector<TextFiles> pairs;
  for (std::size_t i = 0; i < given.size(); i += 2) {
    const FilePair pair{given[i], given[i + 1]};
    const auto again = std::find_if(pairs.begin(), pairs.end(), [&](const TextFiles& earlier) {
      return is_same_file(earlier.source, pair.first) && is_same_file(earlier.target, pair.second);
    });
    if (again == pairs.end()) {
      pairs.push_back(files(pair));
      continue;
    }
    spdlog::warn("--train: {} and {} are read once: they are the files {} and {}", pair.first, pair.second,
                 again->source.string(), again->target.string());
  }
  return pairs;
}

void run_prepare(PrepareArguments& arguments) {
  PrepareOptions& options = arguments.options;
  if (options.filter.min_words > options.filter.max_words) {
    throw UsageFailure(fmt::format("--min-words: found {}, expected at most --max-words, {}", options.filter.min_words,
                                   options.filter.max_words));
  }
  options.train = training_files(arguments.train);
  if (!arguments.valid.first.empty()) options.valid = files(arguments.valid);
  if (!arguments.test.first.empty()) options.test = files(arguments.test);
  options.output = arguments.output;
  options.use_vocabulary = arguments.vocabulary;
  options.unequal = arguments.unequal == "refuse" ? Unequal::refuse : Unequal::truncate;
  const PrepareResult result = prepare(options);
  if (arguments.json) {
    json::array sets;
    for (const PrepareReport& report : result.reports) sets.push_back(report.to_json());
    fmt::print("{}\n", to_text(json::object{{"output", arguments.output},
                                            {"vocabulary_size", result.manifest.vocabulary_size},
                                            {"sets", std::move(sets)}}));
    return;
  }
  for (const PrepareReport& report : result.reports) fmt::print("{}", report.table());
  fmt::print("written to {}, vocabulary of {} pieces\n", arguments.output, result.manifest.vocabulary_size);
}

/// CLI11 would accept an option as the second file of a pair.
std::string is_file_name(const std::string& text) {
  return text.starts_with("--") ? fmt::format("expected two files, found '{}'", text) : "";
}

void add_input(CLI::App& command, PrepareArguments& arguments) {
  command
      .add_option("--train", arguments.train,
                  "training text: source and target file, plain or compressed; may be repeated")
      ->required()
      ->type_name("SRC TGT");
  command.add_option("--valid", arguments.valid, "held-out text to select checkpoints with")
      ->check(is_file_name)
      ->type_name("SRC TGT");
  command.add_option("--test", arguments.test, "held-out text to report scores on")
      ->check(is_file_name)
      ->type_name("SRC TGT");
  command.add_option("--output", arguments.output, "output folder, created if absent")
      ->required()
      ->check(folder_or_nothing)
      ->type_name("DIR");
  command.add_option("--unequal", arguments.unequal, "action if the files of a pair have different numbers of lines")
      ->check(CLI::IsMember({"refuse", "truncate"}))
      ->capture_default_str();
}

/// The vocabulary file of a folder: its spm.model, or for a run's folder the spm.model of its best or newest
/// checkpoint.
std::string vocabulary_file(const std::string& given) {
  const std::filesystem::path folder = given;
  const bool mark = folder.filename() == best_name && !best_checkpoint_name(folder.parent_path()).empty();
  if (!std::filesystem::is_directory(folder) && !mark) return given;
  if (std::filesystem::exists(folder / "spm.model")) return (folder / "spm.model").string();
  try {
    return (find_checkpoint(folder) / "spm.model").string();
  } catch (const Failure&) {
    return (folder / "spm.model").string();  // absent; opening it fails with a message that names it
  }
}

void add_vocabulary(CLI::App& command, PrepareArguments& arguments) {
  VocabularyOptions& vocabulary = arguments.options.vocabulary;
  command
      .add_option("--vocabulary", arguments.vocabulary,
                  "use this SentencePiece model, or that of a checkpoint, instead of training one")
      ->transform(vocabulary_file)
      ->check(existing_file)
      ->type_name("FILE|CHECKPOINT");
  command.add_option("--vocabulary-size", vocabulary.size, "number of pieces, including control pieces")
      ->check(CLI::Range(16, 1'000'000))
      ->capture_default_str();
  command.add_option("--model", vocabulary.model, "type of SentencePiece model")
      ->check(CLI::IsMember({"bpe", "unigram"}))
      ->capture_default_str();
  command
      .add_option("--character-coverage", vocabulary.character_coverage,
                  "fraction of character occurrences covered by single-character pieces")
      ->check(CLI::Range(0.9, 1.0))
      ->capture_default_str();
  command.add_flag("--byte-fallback", vocabulary.byte_fallback, "encode unknown characters as bytes instead of <unk>");
  command.add_option("--normalization", vocabulary.normalization, "Unicode normalization of SentencePiece")
      ->check(CLI::IsMember({"nmt_nfkc", "nfkc", "nmt_nfkc_cf", "nfkc_cf", "identity"}))
      ->capture_default_str();
  command
      .add_option("--symbols", vocabulary.symbols,
                  "comma-separated texts that are one piece each wherever they occur, such as '>>fra<<'; also added to "
                  "--vocabulary, at its end")
      ->delimiter(',');
  command
      .add_option("--vocabulary-lines", arguments.options.vocabulary_lines,
                  "max lines to train the SentencePiece model on")
      ->check(CLI::Range(std::int64_t{1}, std::int64_t{1'000'000'000'000}))
      ->capture_default_str();
}

void add_filter(CLI::App& command, PrepareArguments& arguments) {
  FilterOptions& filter = arguments.options.filter;
  command
      .add_option("--min-words", filter.min_words,
                  "min words of each side; 1.5 characters of Han, 3 of Kana, 4 letters of Thai, Lao, Khmer, Burmese or "
                  "Tibetan count as one")
      ->check(CLI::Range(1, 1'000'000))
      ->capture_default_str();
  command.add_option("--max-words", filter.max_words, "max words of each side")
      ->check(CLI::Range(1, 1'000'000))
      ->capture_default_str();
  command
      .add_option("--max-word-length", filter.max_word_length,
                  "max characters of a word; longer ones are encoded binary data or damaged text")
      ->check(CLI::Range(1, 2'000'000))
      ->capture_default_str();
  command.add_option("--max-pieces", arguments.options.max_pieces, "max pieces of each side")
      ->check(CLI::Range(1, 1'000'000))
      ->capture_default_str();
  command
      .add_option("--max-unknown", arguments.options.max_unknown,
                  "max fraction of <unk> among the pieces of each side; 1: no limit")
      ->check(CLI::Range(0.0, 1.0))
      ->capture_default_str();
  command.add_option("--max-ratio", filter.max_ratio, "max ratio of words, longer side to shorter side")
      ->check(CLI::Range(1.0, 1e6))
      ->capture_default_str();
  command.add_flag("--keep-identical", filter.keep_identical, "keep pairs with identical sides");
  command.add_flag("--keep-duplicates", filter.keep_duplicates, "keep duplicate pairs");
  command.add_flag("--keep-held-out", filter.keep_held_out,
                   "keep training pairs that share the source or target with a held-out pair");
}

}  // namespace

void add_prepare(CLI::App& app) {
  CLI::App* command = app.add_subcommand(
      "prepare", "Cleans and deduplicates parallel text, trains SentencePiece, writes memory-mapped id files");
  const auto arguments = std::make_shared<PrepareArguments>();
  add_input(*command, *arguments);
  add_vocabulary(*command, *arguments);
  add_filter(*command, *arguments);
  command
      ->add_option("--threads", arguments->options.threads,
                   "encoding threads; 0: one per processor that affinity and CPU quota allow")
      ->check(CLI::Range(0, 1024))
      ->capture_default_str();
  command->add_flag("--json", arguments->json, "print the report as JSON");
  command->callback([arguments] { run_prepare(*arguments); });
}

}  // namespace babelring
