#include <fmt/format.h>

#include "base/failure.h"
#include "cli/translate_options.h"

namespace babelring {
namespace {

void require_samples(bool changed, const char* name, const char* expected) {
  if (changed) throw UsageFailure(fmt::format("{}: found without {}, expected both", name, expected));
}

[[noreturn]] void refuse_both(const char* one, const char* other) {
  throw UsageFailure(fmt::format("found {} and {}, expected one of them", one, other));
}

}  // namespace

std::vector<TranslateOption> sampling_options(TranslateChoices& choices) {
  SampleChoices& samples = choices.samples;
  DrawOptions& draw = samples.draw;
  return {
      {"sample",
       "draw translations from the model's distribution instead of searching; several of a line are drawn without "
       "replacement, so that their pieces differ",
       &samples.sample},
      {"temperature", "of samples: below 1 prefers probable pieces; 0: always the most probable one, as greedy",
       &draw.temperature, 0, 100, 100},
      {"top-k", "of samples: choose among the k most probable pieces; 0: all", &draw.top_k, 0, 1e6, 1e6},
      {"top-p", "of samples: choose among the fewest pieces whose probabilities sum to this; 1: all", &draw.top_p, 0, 1,
       1},
      {"seed", "of samples: those of a line are a function of the seed, its number and its text", &samples.seed, 0, 1e9,
       1e9},
      {"gumbel", "of samples: draw one as several are, by Gumbel noise, so that more samples begin with the same ones",
       &samples.gumbel},
      {"independent", "of samples: draw each of several independently; some may be equal", &samples.independent},
      {"mbr",
       "minimum Bayes risk: of independent samples, and with --beam those of a search, choose the one with the largest "
       "mean chrF against the samples",
       &samples.mbr},
      {"mbr-samples", "samples of --mbr", &samples.mbr_samples, 2, 1000, 100}};
}

void drop_unused(SampleChoices& samples) {
  if (!samples.sample && !samples.mbr) samples = SampleChoices();
  if (!samples.mbr) samples.mbr_samples = SampleChoices().mbr_samples;
  if (samples.mbr) samples.gumbel = false;  // its samples are independent
}

void choose_search(TranslateChoices& choices, bool beam_given) {
  const SampleChoices& samples = choices.samples;
  DrawOptions draw = samples.draw;
  draw.seed = static_cast<std::uint64_t>(samples.seed);
  const int n_best = choices.translate.beam.n_best;
  require_samples(!samples.mbr && samples.mbr_samples != SampleChoices().mbr_samples, "mbr-samples", "mbr");
  if (!samples.sample && !samples.mbr) {
    const DrawOptions usual;
    require_samples(draw.temperature != usual.temperature, "temperature", "sample");
    require_samples(draw.top_k != usual.top_k, "top-k", "sample");
    require_samples(draw.top_p != usual.top_p, "top-p", "sample");
    require_samples(draw.seed != usual.seed, "seed", "sample");
    require_samples(samples.gumbel, "gumbel", "sample");
    require_samples(samples.independent, "independent", "sample");
    return;
  }
  if (samples.sample && beam_given) refuse_both("sample", "beam");
  if (!choices.terms.empty()) refuse_both(samples.sample ? "sample" : "mbr", "glossary");
  if (samples.gumbel && samples.independent) refuse_both("gumbel", "independent");
  if (samples.gumbel && samples.mbr) refuse_both("gumbel", "mbr");  // a mean needs independent samples
  if (samples.mbr && n_best > samples.mbr_samples) {
    throw UsageFailure(fmt::format("n-best: found {}, expected at most mbr-samples, {}", n_best, samples.mbr_samples));
  }
  draw.samples = samples.mbr ? samples.mbr_samples : n_best;
  draw.distinct = !samples.mbr && (samples.gumbel || (n_best > 1 && !samples.independent));
  choices.translate.sample = draw;
  if (samples.mbr) choices.translate.mbr = MbrOptions{.n_best = n_best, .beam_candidates = beam_given};
  choices.translate.check();
}

}  // namespace babelring
