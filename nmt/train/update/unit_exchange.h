#pragma once

#include <functional>
#include <map>
#include <memory>
#include <vector>

#include "nmt/comm/communicator.h"
#include "nmt/core/parameters.h"
#include "nmt/data/update_source.h"
#include "nmt/ops/backend.h"

namespace babelring {

/// Brings the gradients of units that move to the ranks that add them (docs/design/units.md). Collective: in each
/// update with such units every rank calls begin(), give() for those that it computes for others, and finish().
class UnitExchange {
 public:
  /// All must outlive the object.
  UnitExchange(Backend& backend, Communicator& communicator, const ParameterStore& store);

  void begin(const UpdateBatches& batches);
  /// The whole gradient of `unit`, which moves from this rank, is in array 0 of the store.
  void give(int unit);
  /// Waits for the units that move to this rank, then calls add(gradients, unit) for each, ascending.
  void finish(const std::function<void(const float* gradients, int unit)>& add);

 private:
  void start_when_given();
  std::shared_ptr<Buffer> memory(std::size_t index);

  Backend& backend_;
  Communicator& communicator_;
  const ParameterStore& store_;
  std::vector<int> ranks_;                       // by position
  std::vector<std::shared_ptr<Buffer>> memory_;  // kept for later updates
  std::vector<Transfer> transfers_;              // of this update
  std::map<int, std::size_t> gives_, receives_;  // units, and their transfers
  std::size_t given_ = 0;
};

}  // namespace babelring
