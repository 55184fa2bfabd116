#include "nmt/data/mixed_plan.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <numeric>
#include <utility>

#include "base/failure.h"
#include "base/text.h"

namespace babelring {

namespace {

constexpr std::int64_t weight_unit = std::int64_t{1} << 20;
constexpr std::int64_t read_ahead = 256;  // sentences of a corpus that are copied from its order at once

std::size_t find(const std::vector<CorpusPart>& parts, const std::string& name) {
  const auto found =
      std::find_if(parts.begin(), parts.end(), [&](const CorpusPart& part) { return part.name == name; });
  return static_cast<std::size_t>(found - parts.begin());
}

}  // namespace

std::string MixEnd::text() const {
  const char* units[] = {"", "update", "epoch", "target token"};
  return counted(value, units[static_cast<std::size_t>(unit)]);
}

void check_mix(const MixOptions& mix, const std::vector<CorpusPart>& parts, const std::string& folder) {
  if (mix.empty()) return;
  const char* key = mix.stages.empty() ? "data.mix_temperature" : "data.mix";
  if (parts.empty()) {
    throw UsageFailure(fmt::format(
        "{}: the training set of {} has no named corpora; expected a folder of `nmt prepare --as NAME`", key, folder));
  }
  std::vector<std::string> names;
  for (const CorpusPart& part : parts) names.push_back(part.name);
  for (const MixStage& stage : mix.stages) {
    for (const auto& [name, weight] : stage.weights) {
      if (find(parts, name) < parts.size()) continue;
      throw UsageFailure(fmt::format("data.mix: unknown corpus '{}', {} has {}{}", printable(name), folder,
                                     fmt::join(names, ", "), did_you_mean(name, names)));
    }
  }
}

MixedPlan::MixedPlan(const Corpus& corpus, const PlanOptions& options, const PlanMemory& memory)
    : corpus_(corpus), options_(options), orders_(corpus.parts().size()) {
  const std::vector<CorpusPart>& parts = corpus.parts();
  check_mix(options.mix, parts, "the corpus");
  PlanOptions own = options;
  for (std::size_t i = 0; i < parts.size(); ++i) {
    own.seed = derive_seed(options.seed, 0x313c, i);
    own.order = DataOrder::shuffled;
    orders_[i] = std::make_unique<EpochOrders>(corpus, own, memory, &parts[i]);
    target_tokens_ += orders_[i]->totals().target_tokens;
  }
  updates_per_epoch_ =
      std::max<std::int64_t>(1, (target_tokens_ + options.tokens_per_update - 1) / options.tokens_per_update);
  for (const MixStage& stage : options.mix.stages) add_stage(stage);
  if (stages_.empty()) add_stage({});
}

/// The weights of a mix that gives none: proportional to (sentences)^(1 / temperature). Source: Arivazhagan et al.
/// 2019, 4.2.
std::vector<double> MixedPlan::weights_by_size() const {
  std::vector<double> weights;
  for (const auto& orders : orders_) {
    weights.push_back(std::pow(static_cast<double>(orders->totals().sentences), 1 / options_.mix.temperature));
  }
  return weights;
}

void MixedPlan::add_stage(const MixStage& given) {
  std::vector<double> weights(orders_.size());
  for (const auto& [name, weight] : given.weights) weights[find(corpus_.parts(), name)] = weight;
  if (given.weights.empty()) weights = weights_by_size();
  const double sum = std::accumulate(weights.begin(), weights.end(), 0.0);
  Stage stage{.weights = {}, .end = given.end};
  for (std::size_t i = 0; i < weights.size(); ++i) {
    stage.weights.push_back(std::llround(weights[i] / sum * static_cast<double>(weight_unit)));
    if (weights[i] == 0 || stage.weights.back() > 0) continue;
    throw UsageFailure(
        fmt::format("data.mix: corpus {} has {:g} of the weights' sum {:g}, expected at least a millionth",
                    corpus_.parts()[i].name, weights[i], sum));
  }
  stages_.push_back(std::move(stage));
}

double MixedPlan::epochs(std::int64_t target_tokens) const {
  return static_cast<double>(target_tokens) / static_cast<double>(target_tokens_);
}

const MixedPlan::Stage& MixedPlan::stage_at(const DataPosition& start) const {
  const auto goes_on = [&](const Stage& stage) {
    switch (stage.end.unit) {
      case MixEnd::Unit::updates:
        return static_cast<double>(start.updates) < stage.end.value;
      case MixEnd::Unit::epochs:
        return epochs(start.target_tokens) < stage.end.value;
      case MixEnd::Unit::target_tokens:
        return static_cast<double>(start.target_tokens) < stage.end.value;
      case MixEnd::Unit::none:
        break;
    }
    return true;
  };
  const auto stage = std::find_if(stages_.begin(), stages_.end(), goes_on);
  return stage == stages_.end() ? stages_.back() : *stage;
}

bool MixedPlan::has(const DataPosition& position) const {
  if (position.corpora.empty()) return position == DataPosition();
  if (position.corpora.size() != orders_.size() || position.updates < 0 || position.target_tokens < 0) return false;
  for (std::size_t i = 0; i < orders_.size(); ++i) {
    const CorpusPosition& at = position.corpora[i];
    if (at.epoch < 0 || at.sentences < 0 || at.sentences >= orders_[i]->totals().sentences) return false;
  }
  return true;
}

/// Reads the sentences of one corpus in their order, from a position.
class MixedPlan::Reader {
 public:
  Reader(const EpochOrders& orders, const CorpusPosition& start) : orders_(orders), at_(start) {}

  /// The sentence at position(), which next() passes.
  std::int64_t sentence() {
    if (used_ == known_.size()) {
      known_ = orders_.sentences(at_.epoch, at_.sentences, read_ahead);
      used_ = 0;
    }
    return known_[used_];
  }
  void next() {
    ++used_;
    if (++at_.sentences < orders_.totals().sentences) return;
    at_ = {.epoch = at_.epoch + 1, .sentences = 0, .credit = at_.credit};
  }
  CorpusPosition& position() { return at_; }

 private:
  const EpochOrders& orders_;
  CorpusPosition at_;
  std::vector<std::uint32_t> known_;  // from position() on; those before `used_` are passed
  std::size_t used_ = 0;
};

UpdatePlan MixedPlan::operator()(const DataPosition& start) const {
  if (!has(start)) fail("plan: no such position in the mix of {} corpora", orders_.size());
  std::vector<Reader> readers;
  for (std::size_t i = 0; i < orders_.size(); ++i) {
    readers.emplace_back(*orders_[i], start.corpora.empty() ? CorpusPosition() : start.corpora[i]);
  }
  const Stage& stage = stage_at(start);
  const std::int64_t sum = std::accumulate(stage.weights.begin(), stage.weights.end(), std::int64_t{0});
  UpdatePlan plan;
  while (true) {
    std::size_t next = readers.size();
    for (std::size_t i = 0; i < readers.size(); ++i) {
      const auto credit = [&](std::size_t corpus) { return readers[corpus].position().credit + stage.weights[corpus]; };
      if (stage.weights[i] > 0 && (next == readers.size() || credit(i) > credit(next))) next = i;
    }
    Reader& reader = readers[next];
    const std::int64_t sentence = reader.sentence(), tokens = target_cost(corpus_, sentence);
    if (!plan.sentences.empty() && 2 * plan.target_tokens + tokens > 2 * options_.tokens_per_update) break;
    for (std::size_t i = 0; i < readers.size(); ++i) readers[i].position().credit += stage.weights[i];
    reader.position().credit -= sum;
    plan.sentences.push_back(sentence);
    plan.epochs.push_back(reader.position().epoch);
    plan.source_tokens += source_cost(corpus_, sentence);
    plan.target_tokens += tokens;
    reader.next();
  }
  plan.next.updates = start.updates + 1;
  plan.next.target_tokens = start.target_tokens + plan.target_tokens;
  for (Reader& reader : readers) plan.next.corpora.push_back(reader.position());
  plan.epochs_done = epochs(plan.next.target_tokens);
  return plan;
}

DataPosition MixedPlan::position_at(double epochs) const {
  DataPosition position;
  position.corpora.resize(orders_.size());
  position.updates = std::llround(epochs * static_cast<double>(updates_per_epoch_));
  position.target_tokens = std::llround(epochs * static_cast<double>(target_tokens_));
  return position;
}

double MixedPlan::source_per_target() const {
  double most = 0;
  for (const Stage& stage : stages_) {
    double source = 0, target = 0;
    for (std::size_t i = 0; i < orders_.size(); ++i) {
      const EpochOrders::Totals& totals = orders_[i]->totals();
      const double sentences = static_cast<double>(stage.weights[i]) / static_cast<double>(totals.sentences);
      source += sentences * static_cast<double>(totals.source_tokens);
      target += sentences * static_cast<double>(totals.target_tokens);
    }
    most = std::max(most, source / target);
  }
  return most;
}

std::string MixedPlan::text() const {
  std::string out;
  for (const Stage& stage : stages_) {
    std::vector<std::string> corpora;
    for (std::size_t i = 0; i < stage.weights.size(); ++i) {
      if (stage.weights[i] == 0) continue;
      const double percent = 100 * static_cast<double>(stage.weights[i]) / static_cast<double>(weight_unit);
      corpora.push_back(fmt::format("{} {:.3g} %", corpus_.parts()[i].name, percent));
    }
    out += fmt::format("{}{}{}", out.empty() ? "" : "; ", fmt::join(corpora, ", "),
                       stage.end.unit == MixEnd::Unit::none ? "" : " until " + stage.end.text());
  }
  return out;
}

}  // namespace babelring
