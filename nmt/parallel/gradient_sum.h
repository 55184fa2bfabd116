#pragma once

#include <memory>

#include "nmt/comm/communicator.h"
#include "nmt/core/packed_batch.h"
#include "nmt/core/parameters.h"
#include "nmt/core/shares.h"
#include "nmt/layers/context.h"
#include "nmt/ops/backend.h"

namespace babelring {

/// How the gradients of all ranks become one sum in an update. Every rank makes the same calls, in the order in which
/// they stand here. Throws CommError.
class GradientSum {
 public:
  virtual ~GradientSum() = default;
  /// `last`: the batch whose backward calls ready(). Returns where the gradients of its embeddings go, for its context,
  /// or null: to their tables. Null for `last` asks for the latter. Valid until finish().
  virtual const EmbeddingRows* begin(const PackedBatch* last) = 0;
  /// The parameter's gradient is complete on this rank. Once for each, while backward goes on.
  virtual void ready(const Parameter& parameter) = 0;
  /// Waits until every gradient is complete on every rank.
  virtual void finish() = 0;
  /// Now the store's gradients are sums over ranks, where this rank updates them. Returns the squares for
  /// Adam::start_step(), of all ranks' shares; valid until the next call. A device is not waited for.
  virtual ConstTensor squares() = 0;
};

/// Each rank gets all sums, by all-reduces in buckets while backward still runs. `shared_table`: what embeddings and
/// output projection share is reduced in two parts, as EmbeddingRowsSum says; null: like all others.
std::unique_ptr<GradientSum> make_bucketed_sum(Backend& backend, Communicator& communicator,
                                               const ParameterStore& store, std::int64_t bucket_bytes,
                                               const Parameter* shared_table);

/// The same for gradients that the host cannot read: when all are complete they are copied to the communicator's
/// memory, summed there and copied back. A single rank copies nothing.
std::unique_ptr<GradientSum> make_staged_sum(Backend& backend, Communicator& communicator, const ParameterStore& store,
                                             std::int64_t bucket_bytes);

/// For ranks that see one memory: when all have finished, each sums its shares, straight from the others' gradients.
/// The processors are busy until then anyway, and nothing is summed twice.
std::unique_ptr<GradientSum> make_sum_of_shares(Backend& backend, Communicator& communicator,
                                                const ParameterStore& store, const Shares& shares);

}  // namespace babelring
