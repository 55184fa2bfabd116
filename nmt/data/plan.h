#pragma once

#include <cstdint>
#include <memory>
#include <mutex>
#include <vector>

#include "nmt/data/corpus.h"

namespace babelring {

/// How the sentences of an epoch are ordered.
enum class DataOrder {
  shuffled,  // each update holds sentences of all lengths
  pooled,  // of runs that began before `shuffled` was there: the sentences of 64 updates are sorted by length together,
           // so that an update holds sentences of nearly one length
};

struct PlanOptions {
  std::int64_t tokens_per_update = 4096;  // target tokens, each sentence's </s> included, over all ranks
  int max_length = 256;                   // sentences with more tokens (</s> included) on either side are left out
  std::uint64_t seed = 1;
  DataOrder order = DataOrder::shuffled;
};

/// A place in the training data: `sentences` sentences of the order of epoch `epoch` are done. Always below the number
/// of sentences: the end of an epoch is the beginning of the next.
struct DataPosition {
  std::int64_t epoch = 0;  // from 0
  std::int64_t sentences = 0;
  friend bool operator==(const DataPosition&, const DataPosition&) = default;
};

/// What one optimizer update trains on, over all ranks and micro-batches.
struct UpdatePlan {
  std::vector<std::int64_t> sentences;  // indices into the corpus, in order
  std::int64_t source_tokens = 0;       // with </s>
  std::int64_t target_tokens = 0;       // with </s>: what the update's loss is divided by
  DataPosition next;                    // where the update after it begins
  double epochs_done = 0;               // passes over the corpus once this update is done, fractional, by target tokens
};

/// Which sentences form the update that begins at a position: a pure function of (corpus, options, position), so a run
/// resumes from the position alone.
///
/// Each epoch has an order of all sentences kept, which depends on the corpus, max_length, seed and the epoch. The
/// order is cut into updates of equal target tokens (to within a sentence). All epochs have equally many updates. An
/// update holds tokens_per_update or slightly fewer on average, since the remainder is spread over all.
///
/// Every position is a valid start. From one that is not at a cut, because another tokens_per_update led to it, the
/// update reaches to the next cut, or to the one after if it held less than a quarter of an update otherwise. So every
/// sentence occurs exactly once an epoch however often tokens_per_update changes. With DataOrder::pooled the order
/// depends on tokens_per_update too: there a change begins another order.
///
/// Thread-safe, except set_order(). The corpus must outlive the plan. The epoch used last is kept (8 bytes a sentence).
class Plan {
 public:
  /// Throws UsageFailure on options out of range, Failure if no sentence is left.
  Plan(const Corpus& corpus, const PlanOptions& options);
  ~Plan();

  /// The update that begins there. Throws Failure if the corpus has no such position.
  UpdatePlan operator()(const DataPosition& start) const;
  /// The first cut at which at least `epochs` passes over the corpus are done.
  DataPosition position_at(double epochs) const;
  /// Before any update is asked for.
  void set_order(DataOrder order) { options_.order = order; }

  std::int64_t updates_per_epoch() const { return updates_; }
  /// Sentences of each epoch, and those left out for their length.
  std::int64_t sentences() const { return static_cast<std::int64_t>(keys_.size()); }
  std::int64_t left_out() const { return corpus_.sentences() - sentences(); }
  /// Tokens of each epoch, with </s>.
  std::int64_t source_tokens() const { return source_tokens_; }
  std::int64_t target_tokens() const { return target_tokens_; }
  const Corpus& corpus() const { return corpus_; }

 private:
  struct Epoch;
  std::shared_ptr<const Epoch> epoch(std::int64_t number) const;
  std::shared_ptr<const Epoch> make_epoch(std::int64_t number) const;
  void sort_pools(std::vector<std::uint64_t>& keys) const;
  void cut(Epoch& epoch) const;
  std::int64_t end_of_update(const Epoch& epoch, std::int64_t first) const;

  const Corpus& corpus_;
  PlanOptions options_;
  std::vector<std::uint64_t> keys_;  // target length << 48 | source length << 32 | index, of sentences kept
  std::int64_t updates_ = 0, source_tokens_ = 0, target_tokens_ = 0;
  mutable std::mutex mutex_;
  mutable std::shared_ptr<const Epoch> last_used_;
};

/// A part of an update: one micro-batch of one rank.
struct Slice {
  std::int64_t first = 0, last = 0;                         // UpdatePlan::sentences[first .. last); may be empty
  std::int64_t first_source_row = 0, first_target_row = 0;  // tokens (with </s>) of the update before it
  std::int64_t source_tokens = 0, target_tokens = 0;        // with </s>
};

/// Cuts an update into world * micro_batches contiguous parts of about equal source + target tokens; returns those of
/// `rank`, one a micro-batch: micro-batch m of rank r is part m * world + r. Together the parts are the update,
/// whatever the world. Parts are empty where there are fewer sentences than parts. Throws Failure unless 0 <= rank <
/// world and micro_batches >= 1.
std::vector<Slice> slice(const Corpus& corpus, const UpdatePlan& update, int rank, int world, int micro_batches);

/// The smallest number of micro-batches with which no part of any rank holds more than `limit` source or `limit` target
/// tokens (or more than one sentence). limit 0: no limit, 1. The same on every rank.
int micro_batches_for(const Corpus& corpus, const UpdatePlan& update, int world, std::int64_t limit);

}  // namespace babelring
