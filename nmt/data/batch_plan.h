#pragma once

#include <cstdint>
#include <vector>

#include "nmt/core/packed_batch.h"
#include "nmt/data/corpus.h"
#include "nmt/data/epoch_orders.h"
#include "nmt/data/update_source.h"

namespace babelring {

/// The data of one optimizer update, over all ranks and micro-batches.
struct UpdatePlan {
  std::vector<std::int64_t> sentences;      // indices into the corpus, in order
  std::vector<std::int64_t> epochs = {};    // of each sentence of a mix; empty: all are in that of the position
  std::vector<std::uint16_t> corpora = {};  // of each sentence: the part of the corpus that it is in; empty: not known
  std::int64_t source_tokens = 0;           // with </s>
  std::int64_t target_tokens = 0;           // with </s>; divisor of the update's loss
  DataPosition next;                        // start of the next update
  double epochs_done = 0;                   // epochs completed after this update, fractional, measured in target tokens
};

/// Assigns sentences to updates. The update at a position is a pure function of (corpus, options, position), so a run
/// resumes from its position alone.
///
/// Each epoch has its own order of all kept sentences, derived from the corpus, max_length, seed and the epoch number.
/// The order is cut into updates of equal target tokens, to within one sentence. All epochs have the same number of
/// updates. An update holds tokens_per_update tokens or slightly fewer on average, because the remainder is spread over
/// all updates.
///
/// Every position is a valid start. A position may lie between cuts if it was reached with another tokens_per_update.
/// The update from there ends at the next cut, or at the one after if it would otherwise hold less than a quarter of an
/// update. So every sentence occurs exactly once per epoch, even if tokens_per_update changes. With DataOrder::pooled
/// the order itself depends on tokens_per_update, so a change starts a different order.
///
/// Thread-safe, except set_order(). The corpus must outlive the plan. The two epochs used last are kept (EpochOrders).
class BatchPlan {
 public:
  /// Throws UsageFailure if an option is out of range, Failure if no sentence is kept. The orders of epochs lie in
  /// memory from `memory`, if it has any.
  BatchPlan(const Corpus& corpus, const PlanOptions& options, const PlanMemory& memory = {})
      : corpus_(corpus), orders_(corpus, options, memory) {}

  /// The update that starts at `start`. Throws Failure if the corpus has no such position.
  UpdatePlan operator()(const DataPosition& start) const;
  /// The start of the update after it: UpdatePlan::next.
  DataPosition after(const DataPosition& start) const;
  /// The first cut after at least `epochs` epochs.
  DataPosition position_at(double epochs) const;
  /// Must be called before the first update is requested.
  void set_order(DataOrder order) { orders_.set_order(order); }

  std::int64_t updates_per_epoch() const { return orders_.totals().updates; }
  /// Sentences per epoch, and sentences excluded by max_length.
  std::int64_t sentences() const { return orders_.totals().sentences; }
  std::int64_t left_out() const { return corpus_.sentences() - sentences(); }
  /// Tokens per epoch, with </s>.
  std::int64_t source_tokens() const { return orders_.totals().source_tokens; }
  std::int64_t target_tokens() const { return orders_.totals().target_tokens; }
  const Corpus& corpus() const { return corpus_; }

 private:
  void check(const DataPosition& start) const;
  DataPosition position(std::int64_t epoch, std::int64_t end) const;
  std::int64_t end_of_update(const EpochOrders::Epoch& epoch, std::int64_t first) const;

  const Corpus& corpus_;
  EpochOrders orders_;
};

/// One micro-batch of one rank: a contiguous part of an update.
struct BatchSlice {
  std::int64_t first = 0, last = 0;                         // UpdatePlan::sentences[first .. last); may be empty
  std::int64_t first_source_row = 0, first_target_row = 0;  // tokens (with </s>) of the update before this slice
  std::int64_t source_tokens = 0, target_tokens = 0;        // with </s>
};

/// Cuts an update into world * micro_batches contiguous parts of about equal source + target tokens and returns the
/// parts of `rank`: micro-batch m of rank r is part m * world + r. The parts together are the whole update for any
/// world size. Parts are empty if there are fewer sentences than parts. Throws Failure unless 0 <= rank < world and
/// micro_batches >= 1.
std::vector<BatchSlice> slice(const Corpus& corpus, const UpdatePlan& update, int rank, int world, int micro_batches);

/// Parts [first, last) of `parts` contiguous parts of about equal source + target tokens. They depend on the update and
/// on `parts` alone. Throws Failure unless 0 <= first <= last <= parts.
std::vector<BatchSlice> slice_range(const Corpus& corpus, const UpdatePlan& update, int first, int last, int parts);

/// The same with parts of other sizes: rank r computes [bounds[r], bounds[r + 1]) of each micro-batch over all ranks,
/// where an update's tokens lie between 0 and 1.
std::vector<BatchSlice> slice(const Corpus& corpus, const UpdatePlan& update, int rank,
                              const std::vector<double>& bounds, int micro_batches);

/// The min number of micro-batches with which no slice of any rank exceeds `limit` source or `limit` target tokens; a
/// slice of a single sentence may exceed it. Returns 1 if `limit` is 0 (no limit). The same on every rank.
int micro_batches_for(const Corpus& corpus, const UpdatePlan& update, int world, std::int64_t limit);
int micro_batches_for(const Corpus& corpus, const UpdatePlan& update, const std::vector<double>& bounds,
                      std::int64_t limit);

/// Packs a slice into a micro-batch. Appends </s> to each source and target and prepends <s> to each target_in. Row
/// numbers come from the slice. An empty slice gives a batch without sentences.
PackedBatch make_batch(const Corpus& corpus, const UpdatePlan& update, const BatchSlice& slice);

/// Packs sentences [first, last) in corpus order, for validation. Each batch holds at most `tokens` source and `tokens`
/// target tokens (</s> included), or a single longer sentence.
std::vector<PackedBatch> sequential_batches(const Corpus& corpus, std::int64_t first, std::int64_t last,
                                            std::int64_t tokens);

}  // namespace babelring
