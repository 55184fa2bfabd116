#pragma once

#include <cstdint>
#include <memory>
#include <mutex>
#include <vector>

#include "nmt/data/corpus.h"

namespace babelring {

struct PlanOptions {
  std::int64_t tokens_per_update = 4096;  // target tokens, each sentence's </s> included, over all ranks
  int max_length = 256;                   // sentences with more tokens (</s> included) on either side are left out
  std::uint64_t seed = 1;
  int pool_updates = 64;  // sentences of about so many updates are sorted by length together; 1: hardly any sorting
};

/// What one optimizer update trains on, over all ranks and micro-batches.
struct UpdatePlan {
  std::int64_t update = 0;              // from 1
  std::int64_t epoch = 0;               // from 0
  double epochs_done = 0;               // passes over the corpus once this update is done, fractional
  std::vector<std::int64_t> sentences;  // indices into the corpus, in order
  std::int64_t source_tokens = 0;       // with </s>
  std::int64_t target_tokens = 0;       // with </s>: what the update's loss is divided by
};

/// Which sentences form update u: a pure function of (corpus, options, u), so a run resumes from the number alone.
///
/// Per epoch all sentences are shuffled, cut into pools, each pool sorted by length, the sequence cut into updates of
/// equal target tokens (to within a sentence), and the updates shuffled. Every sentence kept occurs exactly once an
/// epoch. All epochs have equally many updates, so finding u needs no earlier epoch. An update holds
/// tokens_per_update or slightly fewer on average, since the remainder is spread over all.
///
/// Thread-safe. The corpus must outlive the plan. The two epochs used last are kept (8 bytes a sentence each).
class Plan {
 public:
  /// Throws UsageFailure on options out of range, Failure if no sentence is left.
  Plan(const Corpus& corpus, const PlanOptions& options);
  ~Plan();

  /// Update u, from 1. Throws Failure if u < 1.
  UpdatePlan operator()(std::int64_t update) const;

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

  const Corpus& corpus_;
  PlanOptions options_;
  std::vector<std::uint64_t> keys_;  // target length << 48 | source length << 32 | index, of sentences kept
  std::int64_t updates_ = 0, source_tokens_ = 0, target_tokens_ = 0;
  mutable std::mutex mutex_;
  mutable std::vector<std::shared_ptr<const Epoch>> recent_;  // newest first
};

/// A part of an update: one micro-batch of one rank.
struct Slice {
  std::int64_t first = 0, last = 0;                         // UpdatePlan::sentences[first .. last); may be empty
  std::int64_t first_source_row = 0, first_target_row = 0;  // tokens (with </s>) of the update before it
  std::int64_t source_tokens = 0, target_tokens = 0;        // with </s>
};

/// Cuts an update into world * micro_batches contiguous parts of about equal source + target tokens; returns those of
/// `rank`, one a micro-batch. Micro-batch m of rank r is part m * world + r, so that the ranks' m-th parts hold
/// sentences of similar length. Together the parts are the update, whatever the world. Parts are empty where
/// there are fewer sentences than parts. Throws Failure unless 0 <= rank < world and micro_batches >= 1.
std::vector<Slice> slice(const Corpus& corpus, const UpdatePlan& update, int rank, int world, int micro_batches);

/// The smallest number of micro-batches with which no part of any rank holds more than `limit` source or `limit` target
/// tokens (or more than one sentence). limit 0: no limit, 1. The same on every rank.
int micro_batches_for(const Corpus& corpus, const UpdatePlan& update, int world, std::int64_t limit);

}  // namespace babelring
