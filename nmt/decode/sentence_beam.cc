#include "nmt/decode/sentence_beam.h"

#include <algorithm>
#include <cmath>
#include <tuple>
#include <utility>

#include "base/failure.h"
#include "nmt/data/vocabulary.h"

namespace babelring {

void BeamOptions::check() const {
  const auto require = [](bool good, const char* option, auto found, const char* expected) {
    if (!good) throw UsageFailure(fmt::format("{}: found {}, expected {}", option, found, expected));
  };
  require(beam >= 1 && beam <= 1000, "beam", beam, "1 to 1000");
  require(n_best >= 1 && n_best <= beam, "n-best", n_best, "at least 1 and at most the beam");
  require(length_penalty >= 0 && length_penalty <= 10, "length-penalty", length_penalty, "0 to 10");
  require(max_length_factor >= 0 && max_length_factor <= 100, "max-length-factor", max_length_factor, "0 to 100");
  require(max_length_extra >= 0 && max_length_extra <= 10000, "max-length-extra", max_length_extra, "0 to 10000");
  require(unk_penalty >= 0 && unk_penalty <= 1e6, "unk-penalty", unk_penalty, "0 to 1000000");
}

double BeamOptions::penalty(std::int64_t length) const {
  const auto n = static_cast<double>(length);
  return std::pow(length_formula == LengthFormula::gnmt ? (5 + n) / 6 : n, length_penalty);
}

std::int64_t BeamOptions::max_length(std::int64_t source_pieces) const {
  const auto scaled = static_cast<std::int64_t>(max_length_factor * static_cast<double>(source_pieces));
  return std::max<std::int64_t>(1, scaled + max_length_extra);
}

SentenceBeam::SentenceBeam(const BeamOptions& options, std::int64_t source_pieces)
    : options_(options), max_length_(options.max_length(source_pieces)), live_(1) {}

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
      const auto step = static_cast<double>(next[parent].log_probabilities[i]);
      candidates.push_back({live_[parent].log_probability + step - penalty, parent, id});
    }
  }
  const std::size_t open_slots = static_cast<std::size_t>(options_.beam) - finished_.size();
  const std::size_t count = std::min(open_slots, candidates.size());
  const auto before = [](const Candidate& a, const Candidate& b) {
    return std::tuple(-a.log_probability, a.parent, a.id) < std::tuple(-b.log_probability, b.parent, b.id);
  };
  std::partial_sort(candidates.begin(), candidates.begin() + static_cast<std::ptrdiff_t>(count), candidates.end(),
                    before);
  candidates.resize(count);
  return candidates;
}

void SentenceBeam::advance(std::span<const NextTokens> next) {
  const std::vector<Candidate> chosen = best_candidates(next);
  ++length_;
  std::vector<Live> survivors;
  for (const Candidate& candidate : chosen) {
    Live child = live_[candidate.parent];
    child.log_probability = candidate.log_probability;
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
          .log_probability = live.log_probability,
          .score = live.log_probability / options_.penalty(length),
          .complete = complete};
}

bool SentenceBeam::done() const {
  if (live_.empty() || length_ >= max_length_) return true;
  const auto n = static_cast<std::size_t>(options_.n_best);
  if (finished_.size() < n) return false;
  return live_.front().log_probability / options_.penalty(max_length_) <= finished_[n - 1].score;
}

std::vector<Hypothesis> SentenceBeam::n_best() const {
  std::vector<Hypothesis> best = finished_;
  for (const Live& live : live_) best.push_back(scored(live, length_, false));
  if (best.size() > static_cast<std::size_t>(options_.n_best)) best.resize(static_cast<std::size_t>(options_.n_best));
  return best;
}

}  // namespace babelring
