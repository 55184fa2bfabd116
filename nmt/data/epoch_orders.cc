#include "nmt/data/epoch_orders.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <limits>
#include <new>
#include <numeric>
#include <vector>

#include "base/failure.h"
#include "base/version.h"
#include "nmt/core/random.h"

namespace babelring {

namespace {

constexpr int longest_length = std::numeric_limits<std::uint16_t>::max();
constexpr std::int64_t pool_updates = 64;           // pool size of DataOrder::pooled; changing it changes existing runs
constexpr std::int64_t lookahead = 32;              // sentences whose length is fetched while others are added
constexpr int slots = 2;                            // one epoch ends while the next one begins
constexpr std::int64_t min_updates_to_drop = 4096;  // ranks that prepare updates ahead are never half of them apart
constexpr std::chrono::minutes max_wait(10);        // for another process that makes an epoch

void check_options(const PlanOptions& options) {
  if (options.tokens_per_update < 1) {
    throw UsageFailure(fmt::format("plan: tokens_per_update is {}, expected at least 1", options.tokens_per_update));
  }
  if (options.max_length < 2 || options.max_length > longest_length) {
    throw UsageFailure(
        fmt::format("plan: max_length is {}, expected 2 to {} tokens", options.max_length, longest_length));
  }
}

constexpr std::size_t whole_pages(std::size_t bytes) {
  return (bytes + 4095) / 4096 * 4096;
}

/// Where the arrays of each slot lie.
struct Layout {
  std::size_t sentences, cuts, targets;  // bytes, whole pages
  Layout(std::int64_t max_sentences, std::size_t max_updates)
      : sentences(whole_pages(static_cast<std::size_t>(max_sentences) * sizeof(std::uint32_t))),
        cuts(whole_pages((max_updates + 1) * sizeof(std::uint32_t))),
        targets(whole_pages((max_updates + 1) * sizeof(std::int64_t))) {}
  std::size_t slot() const { return sentences + cuts + targets; }
};

std::size_t max_updates_of(const Corpus& corpus, const PlanOptions& options) {
  const std::int64_t tokens = corpus.target_tokens() + corpus.sentences();
  return static_cast<std::size_t>((tokens + options.tokens_per_update - 1) / options.tokens_per_update);
}

EpochOrders::Totals count(const Corpus& corpus, const PlanOptions& options, std::int64_t first, std::int64_t last) {
  EpochOrders::Totals totals;
  std::int64_t longest_target = 1;
  for (std::int64_t i = first; i < last; ++i) {
    const std::int64_t source = source_cost(corpus, i);
    const std::int64_t target = target_cost(corpus, i);
    if (source > options.max_length || target > options.max_length) continue;
    totals.sentences += 1;
    totals.source_tokens += source;
    totals.target_tokens += target;
    longest_target = std::max(longest_target, target);
  }
  if (totals.sentences == 0) {
    fail("plan: none of {} sentence pairs has at most {} tokens on both sides", last - first, options.max_length);
  }
  // If an update were shorter than the longest sentence, the cuts could leave it empty.
  const std::int64_t needed = (totals.target_tokens + options.tokens_per_update - 1) / options.tokens_per_update;
  totals.updates = std::clamp(needed, std::int64_t{1}, totals.target_tokens / longest_target);
  return totals;
}

[[noreturn]] void fail_changed() {
  fail("plan: the lengths of the sentences have changed since the run began; the id files were overwritten");
}

}  // namespace

/// The known part of one epoch's order.
struct EpochOrders::Slot {
  std::int64_t epoch = -1;  // -1: none, or its order is not complete
  DataOrder order = DataOrder::shuffled;
  std::atomic<std::int64_t> updates = 0;  // whose first sentence is known
  std::atomic<std::int64_t> begin = 0;    // sentences before this one have been dropped
};

/// At the beginning of the memory. A process may die at any instruction: members that say what is valid are written
/// last.
struct EpochOrders::Head {
  ProcessMutex mutex;
  std::atomic<bool> counted = false;  // totals are set
  Totals totals;
  std::array<Slot, slots> held;
};

EpochOrders::EpochOrders(const Corpus& corpus, const PlanOptions& options, const PlanMemory& memory,
                         const CorpusPart* part)
    : corpus_(corpus),
      options_(options),
      first_(part == nullptr ? 0 : part->first),
      last_(part == nullptr ? corpus.sentences() : part->last) {
  check_options(options);
  if (corpus.sentences() > std::numeric_limits<std::uint32_t>::max()) {
    fail("plan: {} sentence pairs, expected fewer than 2^32", corpus.sentences());
  }
  max_updates_ = max_updates_of(corpus, options);
  const std::size_t bytes = whole_pages(sizeof(Head)) + slots * Layout(last_ - first_, max_updates_).slot();
  const auto prepare = [](char* plan) { new (plan) Head; };
  if (memory) {
    std::string key = fmt::format("plan of {} {}: {} {} {}", version, corpus.digest(), options.tokens_per_update,
                                  options.max_length, options.seed);
    if (part != nullptr) key += fmt::format(" {} {}", first_, last_);
    memory_ = memory(bytes, key, prepare);
  }
  if (!memory_) {
    memory_ = SharedFile::create_private(bytes);
    prepare(memory_->data());
  }
  const ProcessLock lock = lock_epochs();
  if (!head().counted) {
    head().totals = count(corpus_, options_, first_, last_);
    head().counted = true;
  }
  totals_ = head().totals;
}

EpochOrders::Head& EpochOrders::head() const {
  return *std::launder(reinterpret_cast<Head*>(memory_->data()));
}

ProcessLock EpochOrders::lock_epochs() const {
  return {head().mutex, max_wait, "the order of the training data"};
}

EpochOrders::Epoch EpochOrders::view(int slot) const {
  const Layout layout(last_ - first_, max_updates_);
  char* first = memory_->data() + whole_pages(sizeof(Head)) + static_cast<std::size_t>(slot) * layout.slot();
  const auto updates = static_cast<std::size_t>(totals_.updates);
  return {.sentences = {reinterpret_cast<std::uint32_t*>(first), static_cast<std::size_t>(totals_.sentences)},
          .cuts = {reinterpret_cast<std::uint32_t*>(first + layout.sentences), updates + 1},
          .targets = {reinterpret_cast<std::int64_t*>(first + layout.sentences + layout.cuts), updates + 1}};
}

/// The slot of an epoch, whose order is complete from sentence `first` on. Needs the lock.
EpochOrders::Slot& EpochOrders::find_or_make(std::int64_t number, std::int64_t first) const {
  const int at = static_cast<int>(number % slots);
  Slot& slot = head().held[static_cast<std::size_t>(at)];
  if (slot.epoch == number && slot.order == options_.order && slot.begin <= first) return slot;
  drop_first_half(number - 1);
  const Epoch epoch = view(at);
  const auto begin = static_cast<std::size_t>(reinterpret_cast<char*>(epoch.sentences.data()) - memory_->data());
  if (!memory_->allocate(begin, epoch.sentences.size_bytes())) {
    fail("plan: out of memory for the order of {} sentence pairs: needed {} bytes", totals_.sentences,
         epoch.sentences.size_bytes());
  }
  make(slot, number, epoch);
  return slot;
}

/// Frees the first half of an epoch's order if it is held and has been cut so far. Ranks that end an epoch do not need
/// it.
void EpochOrders::drop_first_half(std::int64_t number) const {
  if (number < 0 || totals_.updates < min_updates_to_drop) return;
  const int at = static_cast<int>(number % slots);
  Slot& slot = head().held[static_cast<std::size_t>(at)];
  if (slot.epoch != number || slot.updates == 0) return;
  const Epoch epoch = view(at);
  slot.begin = std::min<std::int64_t>(totals_.sentences / 2, epoch.cuts[static_cast<std::size_t>(slot.updates - 1)]);
  std::atomic_signal_fence(std::memory_order_seq_cst);
  const auto from = static_cast<std::size_t>(reinterpret_cast<char*>(epoch.sentences.data()) - memory_->data());
  memory_->release(from, static_cast<std::size_t>(slot.begin) * sizeof(std::uint32_t));
}

void EpochOrders::make(Slot& slot, std::int64_t number, const Epoch& epoch) const {
  slot.epoch = -1;
  std::atomic_signal_fence(std::memory_order_seq_cst);
  slot.updates = 0;
  slot.begin = 0;
  slot.order = options_.order;
  Random random(derive_seed(options_.seed, static_cast<std::uint64_t>(number)));
  fill(epoch.sentences);
  shuffle(epoch.sentences, random);
  epoch.cuts.back() = static_cast<std::uint32_t>(epoch.sentences.size());
  epoch.targets.back() = totals_.target_tokens;
  if (options_.order == DataOrder::pooled) {
    sort_pools(epoch.sentences);
    cut(slot, epoch, [](std::int64_t) { return false; });
    shuffle_updates(epoch, random);
  }
  std::atomic_signal_fence(std::memory_order_seq_cst);
  slot.epoch = number;
}

/// Puts whole updates into a random order.
void EpochOrders::shuffle_updates(const Epoch& epoch, Random& random) const {
  std::vector<std::size_t> order(static_cast<std::size_t>(totals_.updates));
  std::iota(order.begin(), order.end(), 0);
  shuffle(std::span(order), random);
  const std::vector<std::uint32_t> sentences(epoch.sentences.begin(), epoch.sentences.end());
  const std::vector<std::uint32_t> cuts(epoch.cuts.begin(), epoch.cuts.end());
  const std::vector<std::int64_t> targets(epoch.targets.begin(), epoch.targets.end());
  for (std::size_t n = 0; n < order.size(); ++n) {
    const std::size_t update = order[n];
    std::copy(sentences.begin() + cuts[update], sentences.begin() + cuts[update + 1],
              epoch.sentences.begin() + epoch.cuts[n]);
    epoch.cuts[n + 1] = epoch.cuts[n] + (cuts[update + 1] - cuts[update]);
    epoch.targets[n + 1] = epoch.targets[n] + (targets[update + 1] - targets[update]);
  }
}

EpochOrders::Epoch EpochOrders::cut_behind(std::int64_t number, std::int64_t first) const {
  Slot& slot = find_or_make(number, first);
  Epoch epoch = view(static_cast<int>(number % slots));
  cut(slot, epoch,
      [&](std::int64_t known) { return known > 1 && epoch.cuts[static_cast<std::size_t>(known - 2)] > first; });
  const std::int64_t updates = slot.updates;
  const auto known = static_cast<std::size_t>(updates == totals_.updates ? updates + 1 : updates);
  epoch.cuts = epoch.cuts.first(known);
  epoch.targets = epoch.targets.first(known);
  return epoch;
}

std::int64_t EpochOrders::begin_of(std::int64_t number, std::int64_t update) const {
  const ProcessLock lock = lock_epochs();
  Slot& slot = find_or_make(number, 0);
  const Epoch epoch = view(static_cast<int>(number % slots));
  cut(slot, epoch, [&](std::int64_t known) { return known > update; });
  return epoch.cuts[static_cast<std::size_t>(update)];
}

std::vector<std::uint32_t> EpochOrders::sentences(std::int64_t number, std::int64_t first, std::int64_t count) const {
  const ProcessLock lock = lock_epochs();
  find_or_make(number, first);
  const std::span<const std::uint32_t> order = view(static_cast<int>(number % slots)).sentences;
  const auto from = static_cast<std::size_t>(first);
  const auto some = order.subspan(from, std::min(order.size() - from, static_cast<std::size_t>(count)));
  return {some.begin(), some.end()};
}

bool EpochOrders::keeps(std::int64_t sentence) const {
  return source_cost(corpus_, sentence) <= options_.max_length && target_cost(corpus_, sentence) <= options_.max_length;
}

/// The kept sentences in the order of the corpus.
void EpochOrders::fill(std::span<std::uint32_t> sentences) const {
  if (std::ssize(sentences) == last_ - first_) {
    std::iota(sentences.begin(), sentences.end(), static_cast<std::uint32_t>(first_));
    return;
  }
  std::size_t kept = 0;
  for (std::int64_t i = first_; i < last_; ++i) {
    if (!keeps(i)) continue;
    if (kept == sentences.size()) fail_changed();
    sentences[kept++] = static_cast<std::uint32_t>(i);
  }
  if (kept < sentences.size()) fail_changed();
}

/// Cuts an epoch into updates until enough(updates whose begin is known), or all are. A sentence of `tokens` tokens
/// after `before` others belongs to the update in which its middle lies if all `total` tokens are divided into equal
/// updates: update n begins with the first sentence for which (2 before + tokens) updates >= 2 n total. No update is
/// empty, since none is shorter than the longest sentence.
template <class Enough>
void EpochOrders::cut(Slot& slot, const Epoch& epoch, const Enough& enough) const {
  const auto count = static_cast<std::int64_t>(epoch.sentences.size());
  std::int64_t known = slot.updates;
  if (known == totals_.updates || enough(known)) return;
  const auto last = static_cast<std::size_t>(std::max<std::int64_t>(0, known - 1));
  std::int64_t before = known > 0 ? epoch.targets[last] : 0;
  for (std::int64_t i = known > 0 ? epoch.cuts[last] : 0; i < count; ++i) {
    corpus_.fetch_target_length(epoch.sentences[static_cast<std::size_t>(std::min(count - 1, i + lookahead))]);
    const std::int64_t tokens = target_cost(corpus_, epoch.sentences[static_cast<std::size_t>(i)]);
    const std::int64_t middle = (2 * before + tokens) * totals_.updates;
    while (middle >= 2 * known * totals_.target_tokens) {
      epoch.cuts[static_cast<std::size_t>(known)] = static_cast<std::uint32_t>(i);
      epoch.targets[static_cast<std::size_t>(known)] = before;
      slot.updates = ++known;
      if (known == totals_.updates || enough(known)) return;
    }
    before += tokens;
  }
  fail_changed();
}

/// Sorts each pool of sentences (pool_updates updates) by length.
void EpochOrders::sort_pools(std::span<std::uint32_t> sentences) const {
  const std::int64_t count = std::ssize(sentences);
  const std::int64_t pool = std::max<std::int64_t>(1, count * pool_updates / totals_.updates);
  const auto lengths = [this](std::uint32_t sentence) {
    return std::pair(target_cost(corpus_, sentence), source_cost(corpus_, sentence));
  };
  const auto shorter = [&](std::uint32_t a, std::uint32_t b) { return lengths(a) < lengths(b); };
  bool ascending = true;  // alternates, so that an update across two pools also has similar lengths
  for (std::int64_t first = 0; first < count; first += pool, ascending = !ascending) {
    const auto begin = sentences.begin() + first;
    const auto end = sentences.begin() + std::min(count, first + pool);
    std::stable_sort(begin, end, shorter);
    if (!ascending) std::reverse(begin, end);
  }
}

}  // namespace babelring
