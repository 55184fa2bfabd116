#include "nmt/data/batch_plan.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <numeric>
#include <utility>

#include "base/failure.h"
#include "nmt/data/shuffle.h"

namespace babelring {

namespace {

constexpr int longest_length = std::numeric_limits<std::uint16_t>::max();
constexpr std::int64_t pool_updates = 64;  // pool size of DataOrder::pooled; changing it changes existing runs

constexpr std::int64_t target_of(std::uint64_t key) {
  return static_cast<std::int64_t>(key >> 48);
}
constexpr std::int64_t source_of(std::uint64_t key) {
  return static_cast<std::int64_t>(key >> 32 & 0xffff);
}
constexpr std::int64_t index_of(std::uint64_t key) {
  return static_cast<std::int64_t>(key & 0xffffffff);
}

/// Divides a sequence of `total` tokens into `parts` equal parts and returns the part that contains the middle of an
/// element of `tokens` tokens that follows `before` tokens. Non-decreasing along the sequence. No part is empty if none
/// is shorter than the longest element.
constexpr std::int64_t part_of(std::int64_t before, std::int64_t tokens, std::int64_t parts, std::int64_t total) {
  return std::min(parts - 1, (2 * before + tokens) * parts / (2 * total));
}

std::int64_t source_cost(const Corpus& corpus, std::int64_t sentence) {
  return corpus.source_length(sentence) + 1;
}
std::int64_t target_cost(const Corpus& corpus, std::int64_t sentence) {
  return corpus.target_length(sentence) + 1;
}

void check_options(const PlanOptions& options) {
  if (options.tokens_per_update < 1) {
    throw UsageFailure(fmt::format("plan: tokens_per_update is {}, expected at least 1", options.tokens_per_update));
  }
  if (options.max_length < 2 || options.max_length > longest_length) {
    throw UsageFailure(
        fmt::format("plan: max_length is {}, expected 2 to {} tokens", options.max_length, longest_length));
  }
}

}  // namespace

/// The sentence order of one epoch, cut into updates.
struct BatchPlan::Epoch {
  std::int64_t number = 0;
  std::vector<std::uint64_t> keys;    // in training order
  std::vector<std::int64_t> cuts;     // update n is keys[cuts[n] .. cuts[n + 1])
  std::vector<std::int64_t> targets;  // target tokens before each cut
};

BatchPlan::BatchPlan(const Corpus& corpus, const PlanOptions& options) : corpus_(corpus), options_(options) {
  check_options(options);
  if (corpus.sentences() > std::numeric_limits<std::uint32_t>::max()) {
    fail("plan: {} sentence pairs, expected fewer than 2^32", corpus.sentences());
  }
  std::int64_t longest_target = 1;
  keys_.reserve(static_cast<std::size_t>(corpus.sentences()));
  for (std::int64_t i = 0; i < corpus.sentences(); ++i) {
    const std::int64_t source = source_cost(corpus, i);
    const std::int64_t target = target_cost(corpus, i);
    if (source > options.max_length || target > options.max_length) continue;
    keys_.push_back(static_cast<std::uint64_t>(target) << 48 | static_cast<std::uint64_t>(source) << 32 |
                    static_cast<std::uint64_t>(i));
    source_tokens_ += source;
    target_tokens_ += target;
    longest_target = std::max(longest_target, target);
  }
  if (keys_.empty()) {
    fail("plan: none of {} sentence pairs has at most {} tokens on both sides", corpus.sentences(), options.max_length);
  }
  // If an update were shorter than the longest sentence, the cuts could leave it empty.
  const std::int64_t needed = (target_tokens_ + options.tokens_per_update - 1) / options.tokens_per_update;
  updates_ = std::clamp(needed, std::int64_t{1}, target_tokens_ / longest_target);
}

BatchPlan::~BatchPlan() = default;

/// Sorts each pool of sentences (pool_updates updates) by length.
void BatchPlan::sort_pools(std::vector<std::uint64_t>& keys) const {
  const auto count = static_cast<std::int64_t>(keys.size());
  const std::int64_t pool = std::max<std::int64_t>(1, count * pool_updates / updates_);
  const auto shorter = [](std::uint64_t a, std::uint64_t b) { return a >> 32 < b >> 32; };
  bool ascending = true;  // alternates, so that an update across two pools also has similar lengths
  for (std::int64_t first = 0; first < count; first += pool, ascending = !ascending) {
    const auto begin = keys.begin() + first;
    const auto end = keys.begin() + std::min(count, first + pool);
    std::stable_sort(begin, end, shorter);
    if (!ascending) std::reverse(begin, end);
  }
}

/// Cuts the keys of an epoch into updates.
void BatchPlan::cut(Epoch& epoch) const {
  std::int64_t before = 0;
  for (std::size_t i = 0; i < epoch.keys.size(); ++i) {
    const std::int64_t tokens = target_of(epoch.keys[i]);
    const std::int64_t part = part_of(before, tokens, updates_, target_tokens_);
    for (; static_cast<std::int64_t>(epoch.cuts.size()) <= part; epoch.targets.push_back(before)) {
      epoch.cuts.push_back(static_cast<std::int64_t>(i));
    }
    before += tokens;
  }
  epoch.cuts.push_back(static_cast<std::int64_t>(epoch.keys.size()));
  epoch.targets.push_back(before);
}

std::shared_ptr<const BatchPlan::Epoch> BatchPlan::make_epoch(std::int64_t number) const {
  auto epoch = std::make_shared<Epoch>();
  epoch->number = number;
  epoch->keys = keys_;
  Random random(derive_seed(options_.seed, static_cast<std::uint64_t>(number)));
  shuffle(epoch->keys, random);
  if (options_.order == DataOrder::shuffled) {
    cut(*epoch);
    return epoch;
  }
  sort_pools(epoch->keys);
  cut(*epoch);
  std::vector<std::int64_t> order(static_cast<std::size_t>(updates_));
  std::iota(order.begin(), order.end(), 0);
  shuffle(order, random);
  const Epoch sorted = std::exchange(*epoch, {.number = number, .keys = {}, .cuts = {0}, .targets = {0}});
  for (const std::int64_t n : order) {
    const auto update = static_cast<std::size_t>(n);
    epoch->keys.insert(epoch->keys.end(), sorted.keys.begin() + sorted.cuts[update],
                       sorted.keys.begin() + sorted.cuts[update + 1]);
    epoch->cuts.push_back(static_cast<std::int64_t>(epoch->keys.size()));
    epoch->targets.push_back(epoch->targets.back() + sorted.targets[update + 1] - sorted.targets[update]);
  }
  return epoch;
}

std::shared_ptr<const BatchPlan::Epoch> BatchPlan::epoch(std::int64_t number) const {
  const std::lock_guard lock(mutex_);
  if (last_used_ == nullptr || last_used_->number != number) last_used_ = make_epoch(number);
  return last_used_;
}

std::int64_t BatchPlan::end_of_update(const Epoch& epoch, std::int64_t first) const {
  const auto cut = std::upper_bound(epoch.cuts.begin(), epoch.cuts.end(), first);
  const auto at = static_cast<std::size_t>(cut - epoch.cuts.begin());
  if (epoch.cuts[at - 1] == first || cut + 1 == epoch.cuts.end()) return *cut;
  std::int64_t tokens = 0;
  for (std::int64_t i = first; i < *cut; ++i) tokens += target_of(epoch.keys[static_cast<std::size_t>(i)]);
  return 4 * tokens * updates_ < target_tokens_ ? *(cut + 1) : *cut;
}

UpdatePlan BatchPlan::operator()(const DataPosition& start) const {
  if (start.epoch < 0 || start.sentences < 0 || start.sentences >= sentences()) {
    fail("plan: epoch {}, {} sentences done; expected an epoch from 0 and fewer than {} sentences", start.epoch,
         start.sentences, sentences());
  }
  const auto order = epoch(start.epoch);
  const std::int64_t end = end_of_update(*order, start.sentences);
  UpdatePlan plan;
  for (std::int64_t i = start.sentences; i < end; ++i) {
    const std::uint64_t key = order->keys[static_cast<std::size_t>(i)];
    plan.sentences.push_back(index_of(key));
    plan.source_tokens += source_of(key);
    plan.target_tokens += target_of(key);
  }
  const auto cut = std::lower_bound(order->cuts.begin(), order->cuts.end(), end) - order->cuts.begin();
  const double part =
      static_cast<double>(order->targets[static_cast<std::size_t>(cut)]) / static_cast<double>(target_tokens_);
  plan.next = end < sentences() ? DataPosition{start.epoch, end} : DataPosition{start.epoch + 1, 0};
  plan.epochs_done = static_cast<double>(start.epoch) + part;
  return plan;
}

DataPosition BatchPlan::position_at(double epochs) const {
  const double tolerance =
      1e-6;  // in updates; absorbs rounding when `epochs` was computed as updates / updates_per_epoch()
  const auto number = static_cast<std::int64_t>(epochs + tolerance / static_cast<double>(updates_));
  const double part = epochs - static_cast<double>(number);
  const auto update = static_cast<std::int64_t>(std::ceil(part * static_cast<double>(updates_) - tolerance));
  if (update >= updates_) return {number + 1, 0};
  return {number, update <= 0 ? 0 : epoch(number)->cuts[static_cast<std::size_t>(update)]};
}

namespace {

/// Those of the update's `parts` parts for which takes(part) is true. part_at(before, tokens) is the part of a sentence
/// of `tokens` tokens that follows `before` tokens.
template <class PartAt, class Takes>
std::vector<BatchSlice> take_parts(const Corpus& corpus, const UpdatePlan& update, std::int64_t parts,
                                   const PartAt& part_at, const Takes& takes) {
  std::vector<BatchSlice> slices;
  BatchSlice part;
  std::int64_t position = 0;
  const auto count = static_cast<std::int64_t>(update.sentences.size());
  for (std::int64_t p = 0; p < parts; ++p) {
    part = {position, position, part.first_source_row + part.source_tokens, part.first_target_row + part.target_tokens,
            0,        0};
    for (; position < count; ++position) {
      const std::int64_t sentence = update.sentences[static_cast<std::size_t>(position)];
      const std::int64_t source = source_cost(corpus, sentence);
      const std::int64_t target = target_cost(corpus, sentence);
      const std::int64_t before =
          part.first_source_row + part.source_tokens + part.first_target_row + part.target_tokens;
      if (part_at(before, source + target) > p) break;
      part.source_tokens += source;
      part.target_tokens += target;
    }
    part.last = position;
    if (takes(p)) slices.push_back(part);
  }
  return slices;
}

template <class Takes>
std::vector<BatchSlice> take_equal_parts(const Corpus& corpus, const UpdatePlan& update, std::int64_t parts,
                                         const Takes& takes) {
  const std::int64_t total = update.source_tokens + update.target_tokens;
  return take_parts(
      corpus, update, parts,
      [=](std::int64_t before, std::int64_t tokens) { return part_of(before, tokens, parts, total); }, takes);
}

/// Parts by `bounds` of each micro-batch over all ranks.
template <class Takes>
std::vector<BatchSlice> take_bounded_parts(const Corpus& corpus, const UpdatePlan& update,
                                           const std::vector<double>& bounds, int micro_batches, const Takes& takes) {
  const auto world = std::ssize(bounds) - 1;
  const auto total = static_cast<double>(update.source_tokens + update.target_tokens);
  const auto part_at = [&](std::int64_t before, std::int64_t tokens) {
    const double middle = static_cast<double>(2 * before + tokens) / (2 * total) * micro_batches;
    const auto micro_batch = std::min<std::int64_t>(micro_batches - 1, static_cast<std::int64_t>(middle));
    const auto after =
        std::upper_bound(bounds.begin() + 1, bounds.end() - 1, middle - static_cast<double>(micro_batch));
    return micro_batch * world + (after - bounds.begin() - 1);
  };
  return take_parts(corpus, update, world * micro_batches, part_at, takes);
}

/// The min number of micro-batches whose parts, parts_of(number), do not exceed `limit`.
template <class PartsOf>
int min_micro_batches(const UpdatePlan& update, std::int64_t world, std::int64_t limit, const PartsOf& parts_of) {
  if (limit < 1) return 1;
  const std::int64_t larger = std::max(update.source_tokens, update.target_tokens);
  // Terminates: once there are as many parts as tokens, each holds at most one sentence.
  for (auto count = static_cast<int>(std::max<std::int64_t>(1, larger / (limit * world)));; ++count) {
    const std::vector<BatchSlice> parts = parts_of(count);
    const bool fits = std::all_of(parts.begin(), parts.end(), [&](const BatchSlice& part) {
      return part.last - part.first <= 1 || std::max(part.source_tokens, part.target_tokens) <= limit;
    });
    if (fits) return count;
  }
}

constexpr auto every_part = [](std::int64_t) { return true; };

}  // namespace

std::vector<BatchSlice> slice(const Corpus& corpus, const UpdatePlan& update, int rank, int world, int micro_batches) {
  if (rank < 0 || rank >= world || micro_batches < 1) {
    fail("slice: rank {} of {}, {} micro-batches; expected a rank below the world size and at least 1 micro-batch",
         rank, world, micro_batches);
  }
  return take_equal_parts(corpus, update, std::int64_t{world} * micro_batches,
                          [&](std::int64_t part) { return part % world == rank; });
}

std::vector<BatchSlice> slice(const Corpus& corpus, const UpdatePlan& update, int rank,
                              const std::vector<double>& bounds, int micro_batches) {
  const auto world = std::ssize(bounds) - 1;
  return take_bounded_parts(corpus, update, bounds, micro_batches,
                            [&](std::int64_t part) { return part % world == rank; });
}

std::vector<BatchSlice> slice_range(const Corpus& corpus, const UpdatePlan& update, int first, int last, int parts) {
  if (first < 0 || first > last || last > parts) {
    fail("slice_range: parts {} to {} of {}; expected a range of the parts", first, last, parts);
  }
  return take_equal_parts(corpus, update, parts, [&](std::int64_t part) { return part >= first && part < last; });
}

int micro_batches_for(const Corpus& corpus, const UpdatePlan& update, int world, std::int64_t limit) {
  return min_micro_batches(update, world, limit, [&](int count) {
    return take_equal_parts(corpus, update, std::int64_t{count} * world, every_part);
  });
}

int micro_batches_for(const Corpus& corpus, const UpdatePlan& update, const std::vector<double>& bounds,
                      std::int64_t limit) {
  return min_micro_batches(update, std::ssize(bounds) - 1, limit,
                           [&](int count) { return take_bounded_parts(corpus, update, bounds, count, every_part); });
}

}  // namespace babelring
