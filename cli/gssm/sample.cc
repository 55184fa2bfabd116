#include "nmt/decode/sampler.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <boost/json/array.hpp>
#include <memory>
#include <numeric>

#include "base/json.h"
#include "cli/gssm/gssm_commands.h"
#include "cli/model_options.h"
#include "nmt/data/gssm/generator.h"
#include "nmt/data/gssm/likelihood.h"
#include "nmt/data/sequence_source.h"
#include "nmt/train/evaluation/sequence_validator.h"

namespace babelring {
namespace {

using Sequence = std::vector<std::int32_t>;

struct SampleArguments {
  ModelOptions model;
  SampleOptions sample;
  std::int64_t count = 1, length = 0;
  bool score = false, json = false;
};

/// Log-likelihoods of a sequence in nats, without its first token.
struct SampleScore {
  double model = 0, source = 0;
};

/// The source's likelihood of sequences, if they share their kernels.
class SourceScorer {
 public:
  explicit SourceScorer(const GssmOptions& options)
      : generator_(make_gssm_graph(options)), likelihood_(generator_.graph()) {
    for (const GssmNode& node : generator_.graph().nodes) {
      if (node.mode != GssmMode::context) continue;
      throw UsageFailure(
          fmt::format("--score: node {} has mode context, so that every "
                      "sequence has its own kernels; a sample has none",
                      node.name));
    }
  }
  double operator()(const Sequence& sequence) {
    std::vector<double> nats(sequence.size() - 1);
    likelihood_.run(generator_.kernels({}), sequence, nats);
    return std::accumulate(nats.begin(), nats.end(), 0.0);
  }

 private:
  GssmGenerator generator_;
  GssmLikelihood likelihood_;
};

double model_score(const LanguageModel& model, const Sequence& sequence, Backend& backend, ActivationArenas& arenas) {
  const PackedBatch batch = pack_sequences(
      {0, 1}, std::ssize(sequence),
      [&](std::int64_t, std::span<std::int32_t> tokens) { std::ranges::copy(sequence, tokens.begin()); });
  const std::vector<double> nll = token_losses(model, batch, backend, arenas).nll;
  return -std::accumulate(nll.begin(), nll.end(), 0.0);
}

void print_sample(const Sequence& sequence, const SampleScore* score, bool json) {
  if (json) {
    json::object line = {{"tokens", json::array(sequence.begin(), sequence.end())}};
    if (score != nullptr) {
      line["model_log_likelihood"] = score->model;
      line["source_log_likelihood"] = score->source;
    }
    return fmt::print("{}\n", to_text(line));
  }
  if (score != nullptr) fmt::print("{:.4f}\t{:.4f}\t", score->model, score->source);
  fmt::print("{}\n", fmt::join(sequence, " "));
}

void run_sample(const SampleArguments& arguments) {
  const std::unique_ptr<Backend> backend = arguments.model.make_backend();
  const LoadedModel loaded = arguments.model.load_any(*backend);
  if (loaded.config.task != Task::gssm) {
    throw UsageFailure(fmt::format("--checkpoint: {} holds {}; use `nmt translate`", arguments.model.checkpoint,
                                   loaded.model->kind()));
  }
  const LanguageModel& model = require_language_model(*loaded.model);
  SampleOptions options = arguments.sample;
  options.length = arguments.length > 0 ? arguments.length : loaded.config.data.sequence_length;
  options.check(model.vocabulary());
  std::optional<SourceScorer> source;
  if (arguments.score) {
    if (options.prompt[0] != 0) {
      throw UsageFailure(
          fmt::format("--score: the prompt begins with {}, but "
                      "a sequence of the source with 0",
                      options.prompt[0]));
    }
    source.emplace(loaded.config.gssm);
  }
  ActivationArenas arenas(*backend);
  for (const Sequence& sequence : sample_sequences(model, *backend, arguments.count, options)) {
    SampleScore score;
    if (source) score = {model_score(model, sequence, *backend, arenas), (*source)(sequence)};
    print_sample(sequence, source ? &score : nullptr, arguments.json);
  }
}

}  // namespace

void add_gssm_sample(CLI::App& gssm) {
  CLI::App* command = gssm.add_subcommand("sample", "Draws sequences from a trained language model, one a line");
  const auto arguments = std::make_shared<SampleArguments>();
  SampleArguments& a = *arguments;
  a.model.declare_model(*command);
  a.model.declare_device(*command);
  command->add_option("-n,--count", a.count, "number of sequences")
      ->check(CLI::Range(std::int64_t{1}, std::int64_t{1} << 30))
      ->capture_default_str();
  command
      ->add_option("--length", a.length,
                   "tokens of a sequence, the prompt included; default: "
                   "data.sequence_length")
      ->check(CLI::Range(std::int64_t{2}, std::int64_t{1} << 20));
  command->add_option("--prompt", a.sample.prompt, "first tokens, comma-separated")
      ->delimiter(',')
      ->capture_default_str();
  command
      ->add_option("--temperature", a.sample.temperature,
                   "logits are divided by this; below 1 likely tokens become "
                   "likelier; 0: always the likeliest token")
      ->check(CLI::Range(0.0, 1000.0))
      ->capture_default_str();
  command->add_option("--top-k", a.sample.top_k, "choose among the K most likely tokens; 0: among all")
      ->check(CLI::NonNegativeNumber)
      ->capture_default_str();
  command->add_option("--seed", a.sample.seed, "random seed; the same seed draws the same sequences")
      ->capture_default_str();
  command->add_flag("--score", a.score,
                    "print before each sequence its log-likelihood in nats by "
                    "the model and by the source");
  command->add_flag("--json", a.json, "print a JSON object for each sequence");
  command->callback([arguments] { run_sample(*arguments); });
}

}  // namespace babelring
