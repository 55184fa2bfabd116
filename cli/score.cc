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
#include "cli/score_texts.h"
#include "nmt/data/line_reader.h"
#include "nmt/decode/pair_scorer.h"
#include "nmt/train/setup/memory_plan.h"

namespace babelring {

namespace {

/// The options that score pairs by a model.
struct PairArguments {
  ModelOptions model;
  std::string source, target;
  PairChoiceOptions choice;
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
           .choice = arguments.choice.choice(),
           .max_pieces = std::max(1, loaded.config.data.max_length - 1),  // without </s>
           .truncate = arguments.truncate,
           .threads = arguments.model.threads},
          *loaded.vocabulary};
}

/// Reads the texts to their ends, so that bad input is refused before the first score. A pipe can be read only once.
void check_pairs(const PairArguments& arguments, const LoadedModel& loaded) {
  for (const std::string& file : {arguments.source, arguments.target}) {
    if (!file.empty() && std::filesystem::exists(file) && !std::filesystem::is_regular_file(file)) return;
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
  if (input.incomplete() > 0) {
    spdlog::warn("left out: {} without both sides, the first {}", input.incomplete(), input.first_incomplete());
  }
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
constexpr const char* comparing_group = "BLEU, chrF and TER of texts";
constexpr const char* pairs_group = "Log-probabilities of pairs";

/// The first option of the group that was given; null: none.
const CLI::Option* given(const CLI::App& command, const std::string& group) {
  for (const CLI::Option* option : command.get_options()) {
    if (option->get_group() == group && option->count() > 0) return option;
  }
  return nullptr;
}

/// True if the file of --source holds the targets, too, or is a pipe, which the reader judges.
bool holds_both(const CLI::App& command) {
  const auto sources = command.get_option("--source")->as<std::string>();
  std::error_code error;
  return holds_both_sides(form_of(std::filesystem::path(sources))) ||
         (std::filesystem::exists(sources, error) && !std::filesystem::is_regular_file(sources, error));
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
  for (const std::string_view name : needed) {
    if (name == "--target" && pairs != nullptr && holds_both(command)) continue;
    if (command.get_option(std::string(name))->count() == 0)
      throw UsageFailure(fmt::format("{} is required; {}", name, expected));
  }
  return pairs != nullptr;
}

void declare_pairs(CLI::App& command, PairArguments& arguments) {
  arguments.model.declare_model(command);
  command.get_option("--checkpoint")->required(false);
  arguments.model.declare_device(command);
  command
      .add_option("--source", arguments.source,
                  "source text, plain or compressed, or a file of TSV, TMX, XLIFF or XML of WMT that holds both sides")
      ->type_name("FILE");
  command.add_option("--target", arguments.target, "its translation to score, line by line, plain or compressed")
      ->type_name("FILE");
  arguments.choice.declare(command);
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
  CLI::App* command = app.add_subcommand("score",
                                         "Computes BLEU, chrF and TER of texts, equal to sacreBLEU, with confidence "
                                         "and significance; or log-probabilities "
                                         "of sentence pairs");
  const auto comparing = std::make_shared<TextScores>();
  const auto pairs = std::make_shared<PairArguments>();
  const std::string others = command->option_defaults()->get_group();
  command->option_defaults()->group(comparing_group);
  comparing->declare(*command);
  command->option_defaults()->group(pairs_group);
  declare_pairs(*command, *pairs);
  command->option_defaults()->group(others);
  command->add_flag("--json", pairs->json, "print JSON: one object; of pairs, an object on each line");
  command->callback(
      [comparing, pairs, command] { scores_pairs(*command) ? run_pairs(*pairs) : comparing->run(pairs->json); });
}

}  // namespace babelring
