#pragma once

#include <functional>
#include <memory>

#include "nmt/comm/communicator.h"
#include "nmt/core/parameters.h"
#include "nmt/core/shares.h"
#include "nmt/ops/backend.h"
#include "nmt/parallel/gradient_sum.h"

namespace babelring {

/// How the ranks of a run hold a model's weights and moments, and who updates what. Ranks that see one memory keep one
/// copy between them: each sums and updates its share of the elements, and what it writes the others read. All others
/// have a copy each and do the same work on it; a backend with memory of its own has its copy there. The results are
/// the same bits. Every rank makes the same calls.
class ModelOwnership {
 public:
  /// Both must outlive the object.
  ModelOwnership(Backend& backend, Communicator& communicator);

  /// Memory for weights and moments: the ranks' one, or this rank's.
  Buffer allocate(std::size_t bytes) const;
  /// The same, and gradients where the communicator sums them or, where it cannot, in the backend's memory.
  ParameterMemory parameter_memory() const;
  /// What this rank updates of a flat array of `count` elements.
  Shares shares(std::int64_t count) const;

  /// How gradients are summed for it: those of `store`, with parameter_memory(). Ranks with copies of their own reduce
  /// `bucket_bytes` at a time. `shared_table` of `store`: that of both embeddings and the output projection, or null.
  std::unique_ptr<GradientSum> gradient_sum(const ParameterStore& store, std::int64_t bucket_bytes,
                                            const Parameter* shared_table) const;

  /// Runs `write`, which sets weights to values that are the same on all ranks, once for each copy of the model;
  /// returns when every rank sees them.
  void write(const std::function<void()>& write) const;
  /// Waits until every rank has written its share. Before a rank writes again there must be another collective, which
  /// ranks enter after they last read the others' shares: in an update the gradient sum is one.
  void publish() const;
  /// Copies rank 0's tensor to every other copy.
  void spread(Tensor tensor) const;

 private:
  /// Whether gradients are where the communicator sums, on the host or on the device.
  bool communicator_sums() const;

  Backend& backend_;
  Communicator& communicator_;
  bool one_copy_;
};

}  // namespace babelring
