#include "cli/sampling_options.h"

#include <fmt/format.h>

#include <CLI/CLI.hpp>

#include "base/failure.h"

namespace babelring {

void SamplingOptions::declare(CLI::App& command) {
  const std::size_t others = command.get_options(nullptr).size();
  beam_ = command.get_option("--beam");
  command.add_flag("--sample", given_,
                   "draw translations from the model's distribution instead of searching; several of a line (--n-best) "
                   "are drawn without replacement: their pieces differ");
  details_ = {
      command
          .add_option("--temperature", draw_.temperature,
                      "of samples: below 1 prefers probable pieces; 0: always the most probable one, as greedy")
          ->check(CLI::Range(0.0, 100.0))
          ->capture_default_str(),
      command.add_option("--top-k", draw_.top_k, "of samples: choose among the k most probable pieces; 0: all")
          ->check(CLI::Range(0, 1'000'000))
          ->capture_default_str(),
      command
          .add_option("--top-p", draw_.top_p,
                      "of samples: choose among the fewest pieces whose probabilities sum to this; 1: all")
          ->check(CLI::Range(0.0, 1.0))
          ->capture_default_str(),
      command.add_option("--seed", draw_.seed, "of samples: a line's are a function of the seed and its number")
          ->check(CLI::Range(0, 1'000'000'000))
          ->capture_default_str(),
      command.add_flag("--gumbel", distinct_,
                       "of samples: draw by Gumbel noise (stochastic beam search), as --n-best above 1 does, so that "
                       "more samples begin with the same ones"),
      command.add_flag("--independent", independent_,
                       "of samples: draw each of --n-best independently; some may be equal"),
  };
  const std::vector<CLI::Option*> options = command.get_options(nullptr);
  for (std::size_t i = others; i < options.size(); ++i) options[i]->group("Sampling");
}

void SamplingOptions::choose(TranslateOptions& options, int n_best) const {
  const auto refuse = [](const std::string& found, const std::string& expected) {
    throw UsageFailure(fmt::format("{}, expected {} (`nmt translate --help` lists the options)", found, expected));
  };
  if (!given_) {
    for (const CLI::Option* option : details_) {
      if (option->count() > 0) refuse(fmt::format("found {} without --sample", option->get_name()), "both");
    }
    if (n_best > options.beam.beam) {
      refuse(fmt::format("--n-best: found {}", n_best), fmt::format("at most --beam, {}", options.beam.beam));
    }
    options.beam.n_best = n_best;
    return;
  }
  if (beam_->count() > 0) refuse("found --sample and --beam", "one of them");
  if (distinct_ && independent_) refuse("found --gumbel and --independent", "one of them");
  options.sample = draw_;
  options.sample->samples = n_best;
  options.sample->distinct = distinct_ || (n_best > 1 && !independent_);
  options.sample->check();
}

}  // namespace babelring
