#include "cli/commands.h"

#include <fmt/core.h>
#include <spdlog/spdlog.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <filesystem>
#include <memory>
#include <optional>
#include <string>
#include <system_error>
#include <utility>
#include <vector>

#include "base/failure.h"
#include "base/names.h"
#include "base/options/usage.h"
#include "cli/model_options.h"
#include "cli/prepare_text.h"
#include "nmt/data/prepare.h"
#include "nmt/train/pair_losses.h"

namespace babelring {

namespace {

/// The parsed command line.
struct PrepareArguments {
  PrepareOptions options;
  std::vector<TrainOption> train;
  std::vector<std::string> valid, test;  // source and target, or a file that holds both sides
  PairChoiceOptions pairs;
  std::string output, vocabulary, unequal = "refuse";
  std::string drop_suspects;  // file of losses, or the run's folder
  double suspects = 0.01;
  bool json = false, dry_run = false;
};

void print_dry_run(const PrepareArguments& arguments) {
  const std::vector<PrepareReport> reports = try_cleaning(arguments.options);
  json::array sets;
  for (const PrepareReport& report : reports) {
    sets.push_back(report.to_json());
    if (!arguments.json) fmt::print("{}", report.table());
  }
  if (arguments.json) {
    fmt::print("{}\n", to_text(json::object{{"sets", std::move(sets)}}));
  } else {
    fmt::print("nothing written (--dry-run); pieces are not counted\n");
  }
}

/// The options of a filter that need others.
void check_filter(const PrepareArguments& arguments, FilterOptions& filter) {
  if (!filter.scripts.empty() && filter.min_script == 0) {
    throw UsageFailure("--scripts: nothing uses it without --min-script, such as 0.5");
  }
  for (const std::string& name : filter.scripts) {
    if (!is_script_name(name)) {
      throw UsageFailure(fmt::format("--scripts: found '{}', expected scripts such as Latn, Cyrl, Arab, Hans", name));
    }
  }
  if (!filter.identify) return;
  if (arguments.pairs.languages.empty()) throw UsageFailure("--identify: expected --languages too, such as en,de");
  for (const std::string& language : arguments.pairs.languages) {
    if (!is_identifiable(language)) {
      throw UsageFailure(fmt::format("--identify: CLD2 does not know the language '{}' of --languages", language));
    }
  }
  filter.source_language = arguments.pairs.languages[0];
  filter.target_language = arguments.pairs.languages[1];
}

/// Null without --drop-suspects.
std::shared_ptr<const Suspects> suspects_of(const PrepareArguments& arguments) {
  std::filesystem::path file = arguments.drop_suspects;
  if (file.empty()) return nullptr;
  if (arguments.dry_run)
    throw UsageFailure("--drop-suspects knows pairs by their pieces, which --dry-run does not make");
  if (arguments.vocabulary.empty()) {
    throw UsageFailure("--drop-suspects: expected --vocabulary too, that of the run whose losses they are");
  }
  if (std::filesystem::is_directory(file)) file /= pair_losses_name;
  return std::make_shared<Suspects>(find_suspects(file, arguments.suspects));
}

void run_prepare(PrepareArguments& arguments) {
  PrepareOptions& options = arguments.options;
  if (options.filter.min_words > options.filter.max_words) {
    throw UsageFailure(fmt::format("--min-words: found {}, expected at most --max-words, {}", options.filter.min_words,
                                   options.filter.max_words));
  }
  check_filter(arguments, options.filter);
  if (std::vector<NamedText> texts = training_texts(arguments.train); texts.front().name.empty()) {
    options.train = std::move(texts.front().files);
  } else {
    options.corpora = std::move(texts);
  }
  options.valid = held_out_files("--valid", arguments.valid);
  options.test = held_out_files("--test", arguments.test);
  options.choice = arguments.pairs.choice();
  options.output = arguments.output;
  options.use_vocabulary = arguments.vocabulary;
  options.suspects = suspects_of(arguments);
  options.unequal = arguments.unequal == "refuse" ? Unequal::refuse : Unequal::truncate;
  if (arguments.dry_run) {
    print_dry_run(arguments);
    return;
  }
  if (arguments.output.empty()) throw UsageFailure("--output is required, but for --dry-run");
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
  return text.starts_with("--") ? fmt::format("expected one or two files, found '{}'", text) : "";
}

/// --train, and what may follow it. Each is noted when it is read, since their order counts.
void add_training_text(CLI::App& command, std::vector<TrainOption>& train) {
  command
      .add_option_function<std::vector<std::string>>(
          "--train", [&train](const std::vector<std::string>& files) { train.push_back({.files = files}); },
          "training text: source and target file, or one of TSV, TMX, XLIFF or XML of WMT that holds both sides; plain "
          "or compressed, told by content; may be repeated")
      ->required()
      ->trigger_on_parse()
      ->type_name("SRC [TGT]");
  command
      .add_option_function<std::string>(
          "--as", [&train](const std::string& name) { name_text(train, name); },
          "name of the text of the --train before it, such as crawl, by which data.mix weighs it and its loss is "
          "reported; several may have one name; a pair that several corpora have is kept in the first")
      ->trigger_on_parse()
      ->type_name("NAME");
  command
      .add_option_function<std::string>(
          "--tag", [&train](const std::string& tag) { tag_text(train, tag); },
          "text before each source line of the --train before it, such as '<BT>'; it is one of --symbols, too")
      ->trigger_on_parse()
      ->type_name("TEXT");
}

void add_input(CLI::App& command, PrepareArguments& arguments) {
  add_training_text(command, arguments.train);
  command.add_option("--valid", arguments.valid, "held-out text to select checkpoints with")
      ->expected(1, 2)
      ->check(is_file_name)
      ->type_name("SRC [TGT]");
  command.add_option("--test", arguments.test, "held-out text to report scores on")
      ->expected(1, 2)
      ->check(is_file_name)
      ->type_name("SRC [TGT]");
  arguments.pairs.declare(command);
  command.add_option("--output", arguments.output, "output folder, created if absent; required but for --dry-run")
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

/// Filters that also drop sound pairs. The help says values with which those were few, see FilterOptions.
void add_more_filters(CLI::App& command, PrepareArguments& arguments) {
  FilterOptions& filter = arguments.options.filter;
  command
      .add_option("--min-script", filter.min_script,
                  "min fraction of the letters of each side in its script, such as 0.5; 0: any script")
      ->check(CLI::Range(0.0, 1.0))
      ->capture_default_str();
  command
      .add_option("--scripts", filter.scripts,
                  "scripts of source and target for --min-script, such as Latn,Cyrl; default: those of most letters of "
                  "the first 1,000 training pairs")
      ->delimiter(',')
      ->expected(2)
      ->type_name("SRC,TGT");
  command.add_flag("--identify", filter.identify,
                   "drop pairs with a side that CLD2 is sure is not in its language of --languages");
  command
      .add_option("--max-symbols", filter.max_symbols,
                  "max fraction of visible characters of each side that are no letters, such as 0.6; 1: no limit")
      ->check(CLI::Range(0.0, 1.0))
      ->capture_default_str();
  command
      .add_option("--max-repeated", filter.max_repeated,
                  "max number of the same character in a row, such as 8; 0: no limit")
      ->check(CLI::Range(std::int64_t{0}, std::int64_t{1'000'000}))
      ->capture_default_str();
  command
      .add_option("--min-numbers", filter.min_numbers,
                  "min fraction of the numbers of a pair that are on both sides, if both have numbers, such as 0.5; 0: "
                  "numbers may differ")
      ->check(CLI::Range(0.0, 1.0))
      ->capture_default_str();
  command.add_flag("--same-addresses", filter.same_addresses,
                   "drop pairs whose sides name other hosts on the web or other mail addresses");
  command.add_flag("--drop-near-identical", filter.drop_near_identical,
                   "drop pairs with sides that differ only in case, marks and digits");
  command.add_flag("--drop-near-duplicates", filter.drop_near_duplicates,
                   "drop pairs that differ from an earlier one only in case, marks and digits");
  command
      .add_option(
          "--drop-suspects", arguments.drop_suspects,
          "drop the pairs whose loss fell least in a run with training.pair_losses, most of them wrong translations: "
          "its folder or the file; needs its --vocabulary")
      ->check(CLI::ExistingPath)
      ->type_name("RUN|FILE");
  command
      .add_option("--suspects", arguments.suspects,
                  "fraction of the run's pairs that --drop-suspects drops, such as that of wrong translations")
      ->check(CLI::Range(0.0, 1.0))
      ->capture_default_str();
}

}  // namespace

void PairChoiceOptions::declare(CLI::App& command) {
  command
      .add_option("--languages", languages,
                  "source and target language of files that name them, such as en,de; en means en-GB, too; default: "
                  "those of the file")
      ->delimiter(',')
      ->expected(2)
      ->type_name("SRC,TGT");
  command.add_option("--columns", columns, "columns of TSV with source and target; default: 1,2")
      ->delimiter(',')
      ->expected(2)
      ->check(CLI::Range(1, 1000))
      ->type_name("SRC,TGT");
}

PairChoice PairChoiceOptions::choice() const {
  PairChoice choice;
  if (!languages.empty()) {
    choice.source_language = languages[0];
    choice.target_language = languages[1];
  }
  if (!columns.empty()) {
    choice.source_column = columns[0];
    choice.target_column = columns[1];
  }
  return choice;
}

void add_prepare(CLI::App& app) {
  CLI::App* command = app.add_subcommand(
      "prepare", "Cleans and deduplicates parallel text, trains SentencePiece, writes memory-mapped id files");
  const auto arguments = std::make_shared<PrepareArguments>();
  const std::string others = command->option_defaults()->get_group();
  const auto in_group = [&](const char* group, const auto& add) {
    command->option_defaults()->group(group);
    add();
    command->option_defaults()->group(others);
  };
  in_group("Text", [&] { add_input(*command, *arguments); });
  in_group("Vocabulary", [&] { add_vocabulary(*command, *arguments); });
  in_group("Filters of training pairs", [&] { add_filter(*command, *arguments); });
  in_group("Filters of training pairs that are off by default", [&] { add_more_filters(*command, *arguments); });
  command->add_flag("--align", arguments->options.align,
                    "align the pieces of the training pairs, for training.guided_alignment");
  command
      ->add_option("--threads", arguments->options.threads,
                   "encoding threads; 0: one per processor that affinity and CPU quota allow")
      ->check(CLI::Range(0, 1024))
      ->capture_default_str();
  command->add_flag("--dry-run", arguments->dry_run,
                    "clean the text and print the report, with counts and examples, but write nothing and train no "
                    "vocabulary");
  command->add_flag("--json", arguments->json, "print the report as JSON");
  command->callback([arguments] { run_prepare(*arguments); });
}

}  // namespace babelring
