#pragma once

#include <cstdint>
#include <vector>

#include "nmt/comm/communicator.h"
#include "nmt/core/packed_batch.h"
#include "nmt/core/parameters.h"
#include "nmt/layers/context.h"

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

}  // namespace babelring
