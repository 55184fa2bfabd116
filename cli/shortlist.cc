#include "nmt/decode/shortlist.h"

#include <fmt/format.h>
#include <spdlog/spdlog.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <memory>
#include <string>
#include <vector>

#include "base/failure.h"
#include "base/options/usage.h"
#include "cli/commands.h"
#include "cli/model_options.h"
#include "nmt/decode/pair_scorer.h"

namespace babelring {
namespace {

struct ShortlistArguments {
  ModelOptions model;
  std::string source, target, output;
  PairChoiceOptions choice;
  std::int64_t best = 100, frequent = 100;
};

/// The pairs of the text whose sides fit into a line of the training, and how many did not.
class FittingPairs {
 public:
  FittingPairs(const ShortlistArguments& arguments, const LoadedModel& loaded)
      : max_pieces_(std::max(1, loaded.config.data.max_length - 1)),
        input_({.source = arguments.source,
                .target = arguments.target,
                .choice = arguments.choice.choice(),
                .max_pieces = max_pieces_ + 1,
                .truncate = true,
                .threads = arguments.model.threads},
               *loaded.vocabulary) {}

  /// The next pairs; none at the end.
  LinePairs next() {
    for (LinePairs pairs = input_.next(); pairs.size() > 0; pairs = input_.next()) {
      LinePairs fitting;
      for (std::size_t i = 0; i < pairs.size(); ++i) {
        const std::int64_t longest = std::max(std::ssize(pairs.source_ids[i]), std::ssize(pairs.target_ids[i]));
        if (longest > max_pieces_) continue;
        fitting.sources.push_back(std::move(pairs.sources[i]));
        fitting.source_ids.push_back(std::move(pairs.source_ids[i]));
        fitting.target_ids.push_back(std::move(pairs.target_ids[i]));
      }
      used_ += std::ssize(fitting.sources);
      if (fitting.size() > 0) return fitting;
    }
    return {};
  }

  void report() const {
    if (input_.incomplete() > 0) {
      spdlog::warn("left out: {} without both sides, the first {}", input_.incomplete(), input_.first_incomplete());
    }
    if (input_.pairs() > used_) {
      spdlog::info("left out: {} pairs with a side of more than {} pieces, data.max_length of the training",
                   input_.pairs() - used_, max_pieces_);
    }
  }
  std::int64_t used() const { return used_; }

 private:
  std::int64_t max_pieces_, used_ = 0;
  PairInput input_;
};

/// How well a list serves pairs that it was made from.
struct Coverage {
  std::int64_t pieces = 0, covered = 0, listed = 0, pairs = 0;

  void add(const Shortlist& shortlist, const LinePairs& pairs_of_text) {
    for (std::size_t i = 0; i < pairs_of_text.size(); ++i) {
      const std::vector<std::int32_t> list = shortlist.list_of(pairs_of_text.source_ids[i]);
      for (const std::int32_t id : pairs_of_text.target_ids[i]) {
        covered += std::ranges::binary_search(list, id) ? 1 : 0;
      }
      pieces += std::ssize(pairs_of_text.target_ids[i]);
      listed += std::ssize(list);
      ++pairs;
    }
  }
};

void make_shortlist(ShortlistArguments& arguments) {
  arguments.model.search.alignment = AlignmentKind::hard;
  const std::unique_ptr<Backend> backend = arguments.model.make_backend();
  const LoadedModel loaded = arguments.model.load(*backend);
  const Vocabulary& vocabulary = *loaded.vocabulary;
  FittingPairs text(arguments, loaded);
  PairAligner aligner(require_transformer(*loaded.model), *backend, *arguments.model.translate_with(loaded).align);
  ShortlistCounts counts;
  LinePairs first;
  for (LinePairs pairs = text.next(); pairs.size() > 0; pairs = text.next()) {
    const auto aligned = aligner.align(pairs);
    for (std::size_t i = 0; i < pairs.size(); ++i) counts.add(pairs.source_ids[i], pairs.target_ids[i], aligned[i]);
    if (first.size() == 0) first = std::move(pairs);
  }
  text.report();
  if (text.used() == 0) fail("{} has no pairs to align", arguments.source);
  const Shortlist shortlist = counts.shortlist(arguments.best, arguments.frequent, vocabulary);
  shortlist.save(arguments.output);
  Coverage coverage;
  coverage.add(shortlist, first);
  const auto mean = [](std::int64_t sum, std::int64_t count) {
    return static_cast<double>(sum) / static_cast<double>(std::max<std::int64_t>(1, count));
  };
  fmt::print(
      "{}: {} pairs; a sentence may have {:.0f} of {} pieces on average, among them {:.2f} % of its translation's "
      "(first {} pairs)\n",
      arguments.output, text.used(), mean(coverage.listed, coverage.pairs), vocabulary.size(),
      100 * mean(coverage.covered, coverage.pieces), coverage.pairs);
}

}  // namespace

void add_shortlist(CLI::App& app) {
  CLI::App* command = app.add_subcommand(
      "shortlist", "Lists the target pieces that may render each source piece, for `nmt translate --shortlist`");
  const auto arguments = std::make_shared<ShortlistArguments>();
  arguments->model.declare_model(*command);
  arguments->model.declare_device(*command);
  command
      ->add_option("--source", arguments->source,
                   "source text, plain or compressed, or a file of TSV, TMX, XLIFF or XML of WMT that holds both sides")
      ->type_name("FILE")
      ->required();
  command->add_option("--target", arguments->target, "its translation, line by line, plain or compressed")
      ->type_name("FILE");
  arguments->choice.declare(*command);
  command->add_option("--output", arguments->output, "the file to write")->type_name("FILE")->required();
  command->add_option("--best", arguments->best, "target pieces of a source piece: those most often aligned with it")
      ->check(CLI::Range(1, 1'000'000))
      ->capture_default_str();
  command->add_option("--frequent", arguments->frequent, "most frequent target pieces, which any sentence may have")
      ->check(CLI::Range(0, 1'000'000))
      ->capture_default_str();
  command->callback([arguments] { make_shortlist(*arguments); });
}

}  // namespace babelring
