#include "nmt/decode/sentence_beam.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <tuple>
#include <utility>

#include "base/failure.h"
#include "nmt/data/vocabulary.h"

namespace babelring {

namespace {

void require(bool good, const char* option, auto found, const char* expected) {
  if (!good) throw UsageFailure(fmt::format("{}: found {}, expected {}", option, found, expected));
}

}  // namespace

void BeamOptions::check() const {
  require(beam >= 1 && beam <= 1000, "beam", beam, "1 to 1000");
  require(n_best >= 1 && n_best <= beam, "n-best", n_best, "at least 1 and at most the beam");
  require(length_penalty >= 0 && length_penalty <= 10, "length-penalty", length_penalty, "0 to 10");
  require(max_length_factor >= 0 && max_length_factor <= 100, "max-length-factor", max_length_factor, "0 to 100");
  require(max_length_extra >= 0 && max_length_extra <= 10000, "max-length-extra", max_length_extra, "0 to 10000");
  require(unk_penalty >= 0 && unk_penalty <= 1e6, "unk-penalty", unk_penalty, "0 to 1000000");
  rules.check();
  if (max_length_factor == 0 && rules.min_length >= max_length_extra && rules.min_length > 0) {
    throw UsageFailure(fmt::format("min-length: found {}, expected less than max-length-extra, {}, as the factor is 0",
                                   rules.min_length, max_length_extra));
  }
}

void TokenRules::check() const {
  require(min_length >= 0 && min_length <= 10000, "min-length", min_length, "0 to 10000");
  require(no_repeat_ngram >= 0 && no_repeat_ngram <= 100, "no-repeat-ngram", no_repeat_ngram, "0 to 100");
  require(repetition_penalty >= 1 && repetition_penalty <= 100, "repetition-penalty", repetition_penalty, "1 to 100");
}

void TokenRules::apply(std::span<const std::int32_t> ids, std::span<float> log_probabilities) const {
  const auto score = [&](std::int32_t id) -> float& { return log_probabilities[static_cast<std::size_t>(id)]; };
  constexpr float never = -std::numeric_limits<float>::infinity();
  if (repetition_penalty != 1) {
    std::vector<std::int32_t> occurred(ids.begin(), ids.end());
    std::ranges::sort(occurred);
    occurred.erase(std::ranges::unique(occurred).begin(), occurred.end());
    for (const std::int32_t id : occurred) score(id) *= static_cast<float>(repetition_penalty);
  }
  if (std::ssize(ids) < min_length) score(eos_id) = never;
  for (const std::int32_t id : suppressed) score(id) = never;
  for (const std::vector<std::int32_t>& sequence : suppressed_sequences) {
    const auto earlier = std::span(sequence).first(sequence.size() - 1);
    if (ids.size() >= earlier.size() && std::ranges::equal(ids.last(earlier.size()), earlier)) {
      score(sequence.back()) = never;
    }
  }
  const auto length = static_cast<std::size_t>(no_repeat_ngram);
  if (length == 0 || ids.size() < length) return;
  const auto last = ids.last(length - 1);
  for (std::size_t first = 0; first + length <= ids.size(); ++first) {
    if (std::ranges::equal(ids.subspan(first, length - 1), last)) score(ids[first + length - 1]) = never;
  }
}

double BeamOptions::penalty(std::int64_t length, bool complete) const {
  const bool without_end = length_formula == LengthFormula::pieces && complete;
  const auto n = static_cast<double>(std::max<std::int64_t>(1, without_end ? length - 1 : length));
  return std::pow(length_formula == LengthFormula::gnmt ? (5 + n) / 6 : n, length_penalty);
}

std::int64_t BeamOptions::max_length(std::int64_t source_pieces) const {
  const auto scaled = static_cast<std::int64_t>(max_length_factor * static_cast<double>(source_pieces));
  return std::max<std::int64_t>(1, scaled + max_length_extra);
}

namespace {

/// The slots of a beam with phrases: as many again for each piece of them, so that as many hypotheses as without
/// phrases hold all, within a bound on the cost of a sentence: 8 times that of a usual beam of 5.
int width_of(const BeamOptions& options, const Constraints* constraints) {
  constexpr std::int64_t max_width = 40;
  if (constraints == nullptr || !constraints->has_phrases()) return options.beam;
  const std::int64_t wide = options.beam * (1 + constraints->phrase_pieces());
  return std::max(options.beam, static_cast<int>(std::min(wide, max_width)));
}

}  // namespace

SentenceBeam::SentenceBeam(const BeamOptions& options, std::int64_t source_pieces, const Constraints* constraints)
    : options_(options),
      constraints_(constraints),
      width_(width_of(options, constraints)),
      max_length_(options.max_length(source_pieces)),
      live_(1) {}

bool SentenceBeam::allowed(std::int32_t id) const {
  return id != bos_id && (id != eos_id || length_ > 0);
}

std::vector<SentenceBeam::Candidate> SentenceBeam::best_candidates(std::span<const NextTokens> next) const {
  std::vector<Candidate> candidates;
  for (std::size_t parent = 0; parent < live_.size(); ++parent) {
    for (std::size_t i = 0; i < next[parent].ids.size(); ++i) {
      const std::int32_t id = next[parent].ids[i];
      if (!allowed(id)) continue;
      const double penalty = id == unk_id ? options_.unk_penalty : 0;
      const float step = next[parent].log_probabilities[i];
      if (std::isinf(step)) continue;
      const Live& live = live_[parent];
      const bool counted = constraints_ != nullptr && id != eos_id;
      const Constraints::Met met = counted ? constraints_->after(live.met, live.ids, id) : live.met;
      candidates.push_back({live.log_probability + static_cast<double>(step) - penalty, step, parent, id, met});
    }
  }
  const std::size_t open_slots = static_cast<std::size_t>(width_) - finished_.size();
  const bool banks = constraints_ != nullptr && constraints_->has_phrases();
  const std::size_t count = banks ? candidates.size() : std::min(open_slots, candidates.size());
  const auto before = [](const Candidate& a, const Candidate& b) {
    return std::tuple(-a.log_probability, a.parent, a.id) < std::tuple(-b.log_probability, b.parent, b.id);
  };
  std::partial_sort(candidates.begin(), candidates.begin() + static_cast<std::ptrdiff_t>(count), candidates.end(),
                    before);
  candidates.resize(count);
  return banks ? from_banks(std::move(candidates), open_slots) : candidates;
}

/// The best candidates of each bank, in descending order.
std::vector<SentenceBeam::Candidate> SentenceBeam::from_banks(std::vector<Candidate> ordered, std::size_t slots) const {
  const auto banks = static_cast<std::size_t>(constraints_->phrase_pieces()) + 1;
  const auto bank_of = [](const Candidate& candidate) { return static_cast<std::size_t>(candidate.met.pieces); };
  std::vector<std::size_t> counts(banks), given(banks, slots / banks);
  for (const Candidate& candidate : ordered) ++counts[bank_of(candidate)];
  std::size_t left = slots % banks;  // to the banks that hold most, as is what a bank cannot use
  for (std::size_t bank = 0; bank < banks; ++bank) {
    left += given[bank] - std::min(given[bank], counts[bank]);
    given[bank] = std::min(given[bank], counts[bank]);
  }
  for (std::size_t bank = banks; bank-- > 0;) {
    const std::size_t more = std::min(left, counts[bank] - given[bank]);
    given[bank] += more;
    left -= more;
  }
  std::erase_if(ordered, [&](const Candidate& candidate) {
    std::size_t& room = given[bank_of(candidate)];
    if (room == 0) return true;
    --room;
    return false;
  });
  return ordered;
}

void SentenceBeam::advance(std::span<const NextTokens> next) {
  const std::vector<Candidate> chosen = best_candidates(next);
  stuck_ = chosen.empty();
  if (stuck_) return;
  ++length_;
  std::vector<Live> survivors;
  for (const Candidate& candidate : chosen) {
    Live child = live_[candidate.parent];
    child.log_probability = candidate.log_probability;
    child.token_scores.push_back(candidate.step);
    child.met = candidate.met;
    if (candidate.id == eos_id) {
      finished_.push_back(scored(child, length_, true));
    } else {
      child.ids.push_back(candidate.id);
      survivors.push_back(std::move(child));
    }
  }
  live_ = std::move(survivors);
  std::stable_sort(finished_.begin(), finished_.end(),
                   [](const Hypothesis& a, const Hypothesis& b) { return a.score > b.score; });
}

Hypothesis SentenceBeam::scored(const Live& live, std::int64_t length, bool complete) const {
  return {.ids = live.ids,
          .token_scores = live.token_scores,
          .log_probability = live.log_probability,
          .score = live.log_probability / options_.penalty(std::max<std::int64_t>(1, length), complete),
          .complete = complete};
}

bool SentenceBeam::done() const {
  if (live_.empty() || stuck_ || length_ >= max_length_) return true;
  const auto n = static_cast<std::size_t>(options_.n_best);
  if (finished_.size() < n) return false;
  return live_.front().log_probability / options_.penalty(max_length_) <= finished_[n - 1].score;
}

std::vector<Hypothesis> SentenceBeam::n_best() const {
  std::vector<Hypothesis> best = finished_;
  std::vector<Live> fullest = live_;
  std::ranges::stable_sort(fullest, std::ranges::greater(), [](const Live& live) { return live.met.pieces; });
  for (const Live& live : fullest) best.push_back(scored(live, length_, false));
  if (best.size() > static_cast<std::size_t>(options_.n_best)) best.resize(static_cast<std::size_t>(options_.n_best));
  return best;
}

}  // namespace babelring
