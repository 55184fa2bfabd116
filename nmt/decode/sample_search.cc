#include "nmt/decode/sample_search.h"

#include <algorithm>
#include <array>
#include <bit>
#include <cmath>
#include <functional>
#include <limits>
#include <numbers>
#include <tuple>
#include <utility>

#include "base/failure.h"
#include "nmt/core/random.h"
#include "nmt/data/vocabulary.h"

namespace babelring {
namespace {

constexpr std::uint64_t golden_ratio = 0x9e3779b97f4a7c15ULL;  // times 2^64, as in Random

/// e^x with the precision of the log-probabilities.
double power(double x) {
  return static_cast<double>(std::exp(static_cast<float>(x)));
}

/// The largest number, by lanes that do not wait for each other.
float largest_of(std::span<const float> numbers) {
  std::array<float, 8> lanes;
  lanes.fill(-std::numeric_limits<float>::infinity());
  for (std::size_t i = 0; i < numbers.size(); ++i) lanes[i % 8] = std::max(lanes[i % 8], numbers[i]);
  return *std::ranges::max_element(lanes);
}

/// A token that may come next.
struct NextDraw {
  std::int32_t id = 0;
  float step = 0;         // the model's log-probability
  double log_weight = 0;  // logarithm of its probability in the distribution drawn from
};

bool more_probable(const NextDraw& a, const NextDraw& b) {
  return std::tuple(-a.log_weight, a.id) < std::tuple(-b.log_weight, b.id);
}

/// Keeps the fewest most probable tokens whose sum of exp(log_weight) reaches `part` of that of all.
void keep_most_probable(std::vector<NextDraw>& next, double part) {
  double total = 0, sum = 0;
  double largest = -std::numeric_limits<double>::infinity();
  for (const NextDraw& token : next) largest = std::max(largest, token.log_weight);
  for (const NextDraw& token : next) total += power(token.log_weight - largest);
  std::size_t kept = 0;
  for (std::size_t sorted = 64; kept < next.size() && sum < part * total; sorted *= 4) {  // few are sorted if few do
    const std::size_t end = std::min(sorted, next.size());
    const auto begin = next.begin() + static_cast<std::ptrdiff_t>(kept);
    std::partial_sort(begin, next.begin() + static_cast<std::ptrdiff_t>(end), next.end(), more_probable);
    while (kept < end && sum < part * total) sum += power(next[kept++].log_weight - largest);
  }
  next.resize(std::max<std::size_t>(1, kept));
}

/// Turns the log-probabilities, in log_weight, into those of the distribution that is drawn from.
void shape(std::vector<NextDraw>& next, const DrawOptions& options) {
  if (next.empty()) return;
  if (options.temperature == 0) {
    next = {*std::ranges::min_element(next, more_probable)};
  } else if (options.temperature != 1) {
    for (NextDraw& token : next) token.log_weight /= options.temperature;
  }
  if (options.top_k > 0) {
    const std::ptrdiff_t kept = std::min<std::ptrdiff_t>(options.top_k, std::ssize(next));
    std::partial_sort(next.begin(), next.begin() + kept, next.end(), more_probable);
    next.resize(static_cast<std::size_t>(kept));
  }
  if (options.top_p < 1) keep_most_probable(next, options.top_p);
  double sum = 0, largest = -std::numeric_limits<double>::infinity();
  for (const NextDraw& token : next) largest = std::max(largest, token.log_weight);
  for (const NextDraw& token : next) sum += power(token.log_weight - largest);
  const double normaliser = largest + std::log(sum);
  for (NextDraw& token : next) token.log_weight -= normaliser;
}

/// The distribution of the next token.
struct NextTokensToDraw {
  std::vector<NextDraw> tokens;  // those that may be drawn
  // For independent draws: the sums of the probabilities, up to a factor, of the tokens up to each. If all may be drawn
  // there are no `tokens`: then these are the sums, and `all` the log-probabilities, of the whole vocabulary.
  std::vector<double> sums;
  std::span<const float> all;

  bool empty() const { return sums.empty() && tokens.empty(); }
  /// The place of the token at a point from 0 to 1 of the cumulative distribution.
  std::size_t at(double point) const {
    const auto found = std::ranges::upper_bound(sums, point * sums.back());
    // Rounding may lead to the end. The last token that may be drawn is the first whose sum is that of all.
    return static_cast<std::size_t>((found == sums.end() ? std::ranges::lower_bound(sums, sums.back()) : found) -
                                    sums.begin());
  }
  NextDraw token(std::size_t place) const {
    return tokens.empty() ? NextDraw{static_cast<std::int32_t>(place), all[place]} : tokens[place];
  }
};

/// The beginning of one or several draws of a sentence.
struct Beginning {
  Hypothesis drawn;
  std::int32_t row = 0;            // in the decoder's last step; of a new prefix: its parent's
  std::vector<std::size_t> draws;  // independent draws that begin with it
  // For draws without replacement: the logarithm of its probability in the distribution that is drawn from, that plus
  // Gumbel noise, and the key of the noise of the tokens that follow.
  double log_weight = 0, noisy = 0;
  std::uint64_t key = 0;
};

/// The draws of one sentence, without the model. Each step calls branch() for each prefix of live(), then end_step().
class SentenceDraws {
 public:
  SentenceDraws(const BeamOptions& beam, const DrawOptions& options, std::uint64_t key, std::int64_t source_pieces,
                const Constraints* constraints)
      : beam_(beam),
        options_(options),
        constraints_(constraints),
        max_length_(beam.max_length(source_pieces)),
        live_(1) {
    const auto samples = static_cast<std::size_t>(options.samples);
    live_.front().key = key;
    if (options.distinct) return;
    finished_.resize(samples);
    for (std::size_t draw = 0; draw < samples; ++draw) {
      randoms_.emplace_back(derive_seed(key, draw));
      live_.front().draws.push_back(draw);
    }
  }

  bool done() const { return live_.empty(); }
  std::int64_t max_length() const { return max_length_; }
  std::vector<Beginning>& live() { return live_; }
  /// Null: none.
  const Constraints* constraints() const { return constraints_; }

  /// Extends a prefix by tokens that are drawn from a distribution.
  void branch(const Beginning& prefix, const NextTokensToDraw& next) {
    if (next.empty()) {
      finish(prefix, false);
    } else if (options_.distinct) {
      branch_distinct(prefix, next.tokens);
    } else {
      branch_independent(prefix, next);
    }
  }

  void end_step() {
    ++length_;
    if (options_.distinct) keep_largest();
    live_.clear();
    for (Beginning& prefix : children_) {
      const bool complete = prefix.drawn.complete;
      if (complete || length_ == max_length_) {
        finish(prefix, complete);
      } else {
        live_.push_back(std::move(prefix));
      }
    }
    children_.clear();
  }

  std::vector<Hypothesis> found() && {
    std::vector<Hypothesis> found;
    std::ranges::stable_sort(finished_, std::ranges::greater(), &Beginning::noisy);  // independent ones: all 0
    for (Beginning& prefix : finished_) found.push_back(std::move(prefix.drawn));
    return found;
  }

 private:
  Beginning child_of(const Beginning& prefix, const NextDraw& token) const {
    Beginning child = prefix;
    child.draws.clear();
    child.drawn.token_scores.push_back(token.step);
    child.drawn.log_probability += static_cast<double>(token.step) - (token.id == unk_id ? beam_.unk_penalty : 0);
    child.drawn.complete = token.id == eos_id;
    if (!child.drawn.complete) child.drawn.ids.push_back(token.id);
    child.log_weight += token.log_weight;
    return child;
  }

  /// Draws by inverting the cumulative distribution. Draws of the same token go on as one prefix.
  void branch_independent(const Beginning& prefix, const NextTokensToDraw& next) {
    const std::size_t first_child = children_.size();
    std::vector<std::size_t> tokens;  // of the children
    for (const std::size_t draw : prefix.draws) {
      const std::size_t token = next.at(randoms_[draw].uniform());
      const auto child = static_cast<std::size_t>(std::ranges::find(tokens, token) - tokens.begin());
      if (child == tokens.size()) {
        tokens.push_back(token);
        children_.push_back(child_of(prefix, next.token(token)));
      }
      children_[first_child + child].draws.push_back(draw);
    }
  }

  /// An upper limit of the Gumbel noise of 53 random bits, in a fraction of its time: -log(-log u) is at most -log(1 -
  /// u), and 1 - u is above 2^(width - 54) with the bits of its binary digits.
  static double max_noise(std::uint64_t bits) {
    constexpr std::uint64_t all_bits = (std::uint64_t{1} << 53) - 1;
    return (54 - std::bit_width(all_bits - bits)) * std::numbers::ln2;
  }

  /// Draws the noisy log-probabilities of the children under the condition that the largest is the parent's. Noise is
  /// a pure function of the key and the prefix, so that more samples only add draws. Source: Kool et al. 2019,
  /// algorithm 1 and appendix B.3.
  void branch_distinct(const Beginning& prefix, const std::vector<NextDraw>& next) {
    struct Noisy {
      double value;
      const NextDraw* token;
    };
    const auto later = [](const Noisy& a, const Noisy& b) { return a.value > b.value; };
    std::vector<Noisy> noisy;  // the largest, as a heap with the least in front
    for (const NextDraw& token : next) {
      const std::uint64_t bits = mix64(prefix.key + static_cast<std::uint64_t>(token.id + 1) * golden_ratio) >> 11;
      const double plain = prefix.log_weight + token.log_weight;
      const bool full = std::ssize(noisy) == options_.samples;
      if (full && plain + max_noise(bits) <= noisy.front().value) continue;
      const double uniform = (static_cast<double>(bits) + 0.5) * 0x1.0p-53;
      noisy.push_back({plain - std::log(-std::log(uniform)), &token});
      std::ranges::push_heap(noisy, later);
      if (!full) continue;
      std::ranges::pop_heap(noisy, later);
      noisy.pop_back();
    }
    std::ranges::sort_heap(noisy, later);  // the largest first
    for (const auto& [value, token] : noisy) {
      // log(1 - exp(value - largest)) is minus infinity for the largest itself.
      const double below = prefix.noisy - value + std::log(-std::expm1(value - noisy.front().value));
      Beginning child = child_of(prefix, *token);
      child.noisy = prefix.noisy - std::max(0.0, below) - std::log1p(std::exp(-std::abs(below)));
      child.key = derive_seed(prefix.key, static_cast<std::uint64_t>(token->id), 1);
      children_.push_back(std::move(child));
    }
  }

  /// Keeps the `samples` prefixes, finished or not, with the largest noisy log-probabilities.
  void keep_largest() {
    std::vector<double> all;
    for (const auto* prefixes : {&finished_, &children_}) {
      for (const Beginning& prefix : *prefixes) all.push_back(prefix.noisy);
    }
    const auto samples = static_cast<std::ptrdiff_t>(options_.samples);
    if (std::ssize(all) <= samples) return;
    std::ranges::nth_element(all, all.begin() + samples - 1, std::ranges::greater());
    const double least = all[static_cast<std::size_t>(samples - 1)];
    for (auto* prefixes : {&finished_, &children_}) {
      std::erase_if(*prefixes, [&](const Beginning& prefix) { return prefix.noisy < least; });
    }
  }

  void finish(const Beginning& prefix, bool complete) {
    Beginning whole = prefix;
    whole.drawn.complete = complete;
    const auto length = std::max<std::int64_t>(1, std::ssize(whole.drawn.ids) + (complete ? 1 : 0));
    whole.drawn.score = whole.drawn.log_probability / beam_.penalty(length, complete);
    for (const std::size_t draw : prefix.draws) finished_[draw] = whole;
    if (options_.distinct) finished_.push_back(std::move(whole));
  }

  const BeamOptions& beam_;
  const DrawOptions& options_;
  const Constraints* constraints_;
  std::int64_t max_length_, length_ = 0;
  std::vector<Random> randoms_;  // of independent draws
  std::vector<Beginning> live_, children_;
  std::vector<Beginning> finished_;  // independent draws in order, others as they end
};

/// Runs the model for draws.
class SampleSearch {
 public:
  SampleSearch(EnsembleDecoder& decoder, const BeamOptions& beam, const DrawOptions& options)
      : decoder_(decoder), beam_(beam), options_(options), best_(options.temperature == 0 ? 1 : options.top_k) {
    // <s>, </s> and <unk> may be removed or become less probable. A limit where finding the best is still cheap.
    constexpr std::int64_t most = 100;
    whole_ = best_ == 0 && options.top_p == 1 && !options.distinct;
    best_ = best_ == 0 || best_ > most || beam.rules.active() ? 0 : best_ + 3;
  }

  void step(std::vector<SentenceDraws>& sentences) {
    std::vector<CachedDecoder::Row> rows;
    for (std::size_t sentence = 0; sentence < sentences.size(); ++sentence) {
      for (Beginning& prefix : sentences[sentence].live()) {
        rows.push_back({.token = prefix.drawn.ids.empty() ? bos_id : prefix.drawn.ids.back(),
                        .sentence = static_cast<std::int32_t>(sentence),
                        .parent = prefix.row});
        prefix.row = static_cast<std::int32_t>(rows.size()) - 1;
      }
    }
    const auto is_constrained = [](const SentenceDraws& one) { return !one.done() && one.constraints() != nullptr; };
    const bool best_suffice = best_ > 0 && std::ranges::none_of(sentences, is_constrained);
    if (best_suffice) {
      decoder_.step(rows, static_cast<int>(best_));
    } else {
      decoder_.step_all(rows);
    }
    for (SentenceDraws& sentence : sentences) {
      if (sentence.done()) continue;
      for (const Beginning& prefix : sentence.live()) {
        read_next(prefix, sentence.constraints(), best_suffice);
        sentence.branch(prefix, next_);
      }
      sentence.end_step();
    }
  }

 private:
  void read_next(const Beginning& prefix, const Constraints* constraints, bool best_suffice) {
    next_.tokens.clear();
    next_.sums.clear();
    const bool first = prefix.drawn.ids.empty();
    const auto add = [&](std::int32_t id, float step) {
      if (id == bos_id || (id == eos_id && first) || std::isinf(step)) return;
      next_.tokens.push_back({id, step, static_cast<double>(step) - (id == unk_id ? beam_.unk_penalty : 0)});
    };
    if (best_suffice) {
      const NextTokens best = decoder_.next(prefix.row);
      for (std::size_t i = 0; i < best.ids.size(); ++i) add(best.ids[i], best.log_probabilities[i]);
    } else {
      const std::span<float> all = decoder_.log_probabilities(prefix.row);
      if (constraints != nullptr) original_.assign(all.begin(), all.end());
      beam_.rules.apply(prefix.drawn.ids, all);
      if (constraints != nullptr) constraints->apply({}, prefix.drawn.ids, original_, all);
      if (whole_) return sum_all(all, first);
      for (std::size_t id = 0; id < all.size(); ++id) add(static_cast<std::int32_t>(id), all[id]);
    }
    shape(next_.tokens, options_);
    if (options_.distinct) return;
    double sum = 0;
    for (const NextDraw& token : next_.tokens) next_.sums.push_back(sum += power(token.log_weight));
  }

  /// Sums over the vocabulary in one pass, because it takes longer than a small model's step. The powers are computed
  /// in f32, whose rounding is that of the log-probabilities.
  void sum_all(std::span<float> all, bool first) {
    next_.all = all;
    all[bos_id] = -INFINITY;
    if (first) all[eos_id] = -INFINITY;
    const float unknown = all[unk_id];
    all[unk_id] -= static_cast<float>(beam_.unk_penalty);
    const float largest = largest_of(all), factor = 1 / static_cast<float>(options_.temperature);
    double sum = 0;
    if (!std::isinf(largest)) next_.sums.resize(all.size());
    for (std::size_t id = 0; id < next_.sums.size(); ++id) {
      next_.sums[id] = sum += static_cast<double>(std::exp((all[id] - largest) * factor));
    }
    all[unk_id] = unknown;
  }

  EnsembleDecoder& decoder_;
  const BeamOptions& beam_;
  const DrawOptions& options_;
  std::int64_t best_;  // tokens that the model finds for a step; 0: it computes all
  bool whole_;         // independent draws from all tokens
  NextTokensToDraw next_;
  std::vector<float> original_;  // log-probabilities before the rules
};

}  // namespace

void DrawOptions::check() const {
  const auto require = [](bool good, const char* option, auto found, const char* expected) {
    if (!good) throw UsageFailure(fmt::format("{}: found {}, expected {}", option, found, expected));
  };
  require(samples >= 1 && samples <= 1000, "samples", samples, "1 to 1000");
  require(temperature == 0 || (temperature >= 0.001 && temperature <= 100), "temperature", temperature,
          "0, or 0.001 to 100");
  require(top_k >= 0, "top-k", top_k, "at least 0");
  require(top_p > 0 && top_p <= 1, "top-p", top_p, "a number above 0, at most 1");
}

std::vector<std::vector<Hypothesis>> sample_search(EnsembleDecoder& decoder,
                                                   std::span<const std::span<const std::int32_t>> sources,
                                                   std::span<const std::uint64_t> keys, const BeamOptions& beam,
                                                   const DrawOptions& options,
                                                   std::span<const Constraints* const> constraints, IdLists lists) {
  options.check();
  if (sources.empty()) return {};
  std::vector<SentenceDraws> sentences;
  std::int64_t max_length = 0;
  for (std::size_t i = 0; i < sources.size(); ++i) {
    sentences.emplace_back(beam, options, keys[i], std::ssize(sources[i]),
                           constraints.empty() ? nullptr : constraints[i]);
    max_length = std::max(max_length, sentences.back().max_length());
  }
  decoder.start(sources, std::ssize(sources) * options.samples, max_length, lists);
  SampleSearch search(decoder, beam, options);
  const auto open = [](const SentenceDraws& sentence) { return !sentence.done(); };
  while (std::ranges::any_of(sentences, open)) search.step(sentences);
  std::vector<std::vector<Hypothesis>> found;
  for (SentenceDraws& sentence : sentences) found.push_back(std::move(sentence).found());
  return found;
}

}  // namespace babelring
