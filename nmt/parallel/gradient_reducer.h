#pragma once

#include <cstdint>
#include <memory>
#include <vector>

#include "nmt/comm/communicator.h"
#include "nmt/core/packed_batch.h"
#include "nmt/core/parameters.h"
#include "nmt/core/shards.h"
#include "nmt/layers/context.h"
#include "nmt/ops/backend.h"
#include "nmt/parallel/weights_gather.h"

namespace babelring {

/// Reduces the gradient of a table shared by both embeddings and the output projection, in two parts, so that little
/// remains to reduce after backward. The projection's part has all rows and is complete after the loss; buckets reduce
/// it in place during backward. The embeddings' part has only the rows of ids that occur in any rank's last
/// micro-batch. It is collected in a compact table, reduced after backward and added to the projection's part.
/// Collective: every rank calls begin(), start() and add() once per update.
class EmbeddingRowsReducer {
 public:
  /// Allocates the compact table. The references must outlive the object. Throws CommError.
  EmbeddingRowsReducer(Backend& backend, Communicator& communicator, const Parameter& table);

  /// Agrees with all ranks on the rows in use and clears them. Returns null on all ranks if these are more than 3/4 of
  /// the table, because a second part would then cost more than it saves. Throws CommError.
  const EmbeddingRows* begin(const PackedBatch& batch);
  /// After backward and after all buckets have started: starts the all-reduce of the rows.
  void start();
  /// After Communicator::all_reduce_finish(): adds the summed rows to the table's gradient.
  void add();

 private:
  std::vector<std::uint64_t> used_by_any_rank(const PackedBatch& batch) const;
  void upload(const std::vector<std::int32_t>& ids, const std::vector<std::int32_t>& source,
              const std::vector<std::int32_t>& target);

  Backend& backend_;
  Communicator& communicator_;
  const Parameter& table_;
  std::int64_t max_rows_;
  Buffer gradient_;  // [max_rows_, width] f32
  Buffer lists_;     // i32: ids_, rows_.source and rows_.target
  ConstTensor ids_;  // [rows] i32: table row of each compact row
  EmbeddingRows rows_;
};

/// Sums the gradients of all ranks in each update. Every rank calls the members once per update in declaration order
/// (ready() once per parameter). All members may throw CommError.
class GradientReducer {
 public:
  virtual ~GradientReducer() = default;
  /// Starts an update. `last` is the batch whose backward calls ready(). Returns the compact embedding gradient for
  /// that batch's Context::embedding_rows, valid until finish(); null: embedding gradients go to their tables. Pass
  /// null for `last` to request the latter.
  virtual const EmbeddingRows* begin(const PackedBatch* last) = 0;
  /// Reports the parameter's gradient complete on this rank. Called during backward.
  virtual void ready(const Parameter& parameter) = 0;
  /// Waits until every gradient is complete on every rank.
  virtual void finish() = 0;
  /// After this call, the elements that this rank updates hold sums over all ranks. Returns the per-block sums of
  /// squares of the whole gradient for Adam::start_step(), the same on all ranks; valid until the next call. Does not
  /// wait for a device. See GradientNorm.
  virtual ConstTensor squares() = 0;
};

/// All-reduces buckets during backward; every rank gets the whole sum. When finish() returns on one rank, no rank reads
/// weights for this update any more: the last bucket holds the first parameter, an embedding table, whose gradient is
/// complete only at the end of backward. `shared_table`: the table shared by embeddings and output projection, reduced
/// in two parts (see EmbeddingRowsReducer); null: no parameter is treated specially.
std::unique_ptr<GradientReducer> make_bucketed_reducer(Backend& backend, Communicator& communicator,
                                                       const ParameterStore& store, std::int64_t bucket_bytes,
                                                       const Parameter* shared_table);

/// For gradients in device memory that the communicator cannot reduce. Copies all gradients to host memory after
/// backward, sums them there and copies them back. A single rank copies nothing.
std::unique_ptr<GradientReducer> make_staged_reducer(Backend& backend, Communicator& communicator,
                                                     const ParameterStore& store, std::int64_t bucket_bytes);

/// For a sharded optimizer: scatters rounds of `shards` during backward; only this rank's shard holds sums
/// afterwards. As to reads of weights, finish() is like that of make_bucketed_reducer(): when it returns, no rank of
/// this host reads weights for this update any more.
std::unique_ptr<GradientReducer> make_scattering_reducer(Backend& backend, Communicator& communicator,
                                                         const ParameterStore& store, const HostShards& shards);

/// For ranks of a single host that share memory. After all ranks have finished backward, each rank sums its shard
/// directly from the other ranks' gradients. Nothing is summed twice, and the CPUs have no idle time to overlap with
/// before that. The ranks are added in their order, or in a tree.
std::unique_ptr<GradientReducer> make_sharded_reducer(Backend& backend, Communicator& communicator,
                                                      const ParameterStore& store, const Shards& shard,
                                                      AddOrder order = AddOrder::any);

}  // namespace babelring
