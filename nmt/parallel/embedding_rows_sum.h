#pragma once

#include <cstdint>
#include <vector>

#include "nmt/comm/communicator.h"
#include "nmt/core/packed_batch.h"
#include "nmt/core/parameters.h"
#include "nmt/layers/context.h"

namespace babelring {

/// Sums over ranks the gradient of a table that both embeddings and the output projection share, in two parts, so that
/// little is left to sum when backward is over. The projection's part has every row and is complete when the loss is
/// computed: buckets reduce it in place while backward runs. The embeddings' part has the rows of the ids that any rank
/// has in its last micro-batch: they are gathered in a smaller table, reduced after backward and added to the first.
/// Every rank makes the same calls: begin(), start(), add() in an update.
class EmbeddingRowsSum {
 public:
  /// Allocates the smaller table, and the references outlive this object. Throws CommError.
  EmbeddingRowsSum(Backend& backend, Communicator& communicator, const Parameter& table);

  /// Agrees with all ranks on the rows and clears them. Null on all ranks if they are more than 3/4 of the table's:
  /// a second part would then cost more than it saves. Throws CommError.
  const EmbeddingRows* begin(const PackedBatch& batch);
  /// After backward: starts the sum of the rows, behind all buckets.
  void start();
  /// After Communicator::all_reduce_finish(): adds the sums to the table's gradient.
  void add();

 private:
  std::vector<bool> named_by_any_rank(const PackedBatch& batch) const;
  void upload(const std::vector<std::int32_t>& ids, const std::vector<std::int32_t>& source,
              const std::vector<std::int32_t>& target);

  Backend& backend_;
  Communicator& communicator_;
  const Parameter& table_;
  std::int64_t max_rows_;
  Buffer gradient_;  // [max_rows_, width] f32
  Buffer lists_;     // i32: ids_ and the rows of tokens
  ConstTensor ids_;  // [rows] i32: the table's row of each row
  EmbeddingRows rows_;
};

}  // namespace babelring
