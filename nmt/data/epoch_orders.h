#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "nmt/core/random.h"
#include "nmt/core/shared_file.h"
#include "nmt/data/corpus.h"
#include "nmt/data/update_source.h"

namespace babelring {

struct PlanOptions {
  std::int64_t tokens_per_update = 4096;  // target tokens, each sentence's </s> included, over all ranks
  int max_length = 256;                   // sentences with more tokens (</s> included) on either side are left out
  std::uint64_t seed = 1;
  DataOrder order = DataOrder::shuffled;
  double source_word_dropout = 0, target_word_dropout = 0;  // see drop_words()
  MixOptions mix;                                           // see MixedPlan; empty: every epoch has every sentence
  bool names_pairs = false;                                 // updates have UpdateBatches::pairs
};

/// Tokens of a sentence, with </s>.
inline std::int64_t source_cost(const Corpus& corpus, std::int64_t sentence) {
  return corpus.source_length(sentence) + 1;
}
inline std::int64_t target_cost(const Corpus& corpus, std::int64_t sentence) {
  return corpus.target_length(sentence) + 1;
}

/// Returns zeroed memory of `bytes` bytes that processes of this host have in common if they pass the same `key`.
/// prepare() is run in it once, before other processes see it. Null: there is none.
using PlanMemory = std::function<std::shared_ptr<SharedFile>(std::size_t bytes, const std::string& key,
                                                             const std::function<void(char*)>& prepare)>;

/// The order of the sentences in an epoch, cut into updates of equal target tokens, for the two epochs that were used
/// last. Processes of one host may share it: the first that needs an epoch makes it, and the others wait for
/// it. An epoch takes 4 bytes a sentence and 12 an update. When the next one is made, the first half of a long
/// epoch's order is dropped; a rank that goes back to it rebuilds it. Updates are cut lazily, so that
/// the first update does not wait for the lengths of all sentences, which are read from the mapped id files.
///
/// Thread-safe, except set_order(). The corpus must outlive this.
class EpochOrders {
 public:
  /// The totals of an epoch, the same for all epochs.
  struct Totals {
    std::int64_t sentences = 0;                         // not longer than max_length
    std::int64_t source_tokens = 0, target_tokens = 0;  // with </s>
    std::int64_t updates = 0;
  };
  /// A view of one epoch.
  struct Epoch {
    std::span<std::uint32_t> sentences;  // indices into the corpus, in training order
    std::span<std::uint32_t> cuts;       // update n is sentences[cuts[n] .. cuts[n + 1]); known so far
    std::span<std::int64_t> targets;     // target tokens before each cut
  };

  /// Throws UsageFailure if an option is out of range, Failure if no sentence is kept. `part`: the sentences that
  /// epochs have; null: all.
  EpochOrders(const Corpus& corpus, const PlanOptions& options, const PlanMemory& memory,
              const CorpusPart* part = nullptr);

  const Totals& totals() const { return totals_; }
  /// Must be called before the first with_epoch().
  void set_order(DataOrder order) { options_.order = order; }

  /// Calls use(const Epoch&) and returns its value. At least two cuts behind sentence `first` of the epoch are known,
  /// or all. Other threads and processes wait meanwhile. Throws Failure if memory is short or the id files have
  /// changed.
  template <class Use>
  auto with_epoch(std::int64_t number, std::int64_t first, const Use& use) const {
    const ProcessLock lock = lock_epochs();
    return use(cut_behind(number, first));
  }
  /// Up to `count` sentences of an epoch from number `first` on, which must be less than those of an epoch. Cuts no
  /// updates. Throws like with_epoch().
  std::vector<std::uint32_t> sentences(std::int64_t number, std::int64_t first, std::int64_t count) const;
  /// The sentence with which an update begins. Throws like with_epoch().
  std::int64_t begin_of(std::int64_t number, std::int64_t update) const;

 private:
  struct Head;
  struct Slot;
  Head& head() const;
  ProcessLock lock_epochs() const;
  Epoch view(int slot) const;
  Slot& find_or_make(std::int64_t number, std::int64_t first) const;
  void drop_first_half(std::int64_t number) const;
  Epoch cut_behind(std::int64_t number, std::int64_t first) const;
  template <class Enough>
  void cut(Slot& slot, const Epoch& epoch, const Enough& enough) const;
  void make(Slot& slot, std::int64_t number, const Epoch& epoch) const;
  void fill(std::span<std::uint32_t> sentences) const;
  void shuffle_updates(const Epoch& epoch, Random& random) const;
  void sort_pools(std::span<std::uint32_t> sentences) const;
  bool keeps(std::int64_t sentence) const;

  const Corpus& corpus_;
  PlanOptions options_;
  std::int64_t first_, last_;  // sentences of the corpus that epochs have
  std::size_t max_updates_;    // for which there is room
  std::shared_ptr<SharedFile> memory_;
  Totals totals_;
};

}  // namespace babelring
