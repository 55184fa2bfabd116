#pragma once

#include <array>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "nmt/checkpoint/tensor_files.h"
#include "nmt/train/update/model_replica.h"

namespace babelring {

/// A copy of a shard's weights and moments in host memory. With a sharded optimizer each rank first copies the values
/// that it keeps; they travel to the ranks that need them while training goes on. Collective then: every rank makes the
/// same calls.
class StateCopy {
 public:
  /// Copies this rank's shard. `shards`: of each rank; absent: none. The replica may change afterwards, and must
  /// outlive the copy until it is complete.
  StateCopy(const ModelReplica& replica, const std::vector<std::optional<ShardIndex>>& shards);

  /// True if all ranks have all values; the same on all ranks.
  bool complete() const { return arrived_ == steps_.size(); }
  /// Takes the values that have arrived, and sends the next. Call it once after each update, whose collectives have
  /// waited for the values.
  void advance();
  /// Waits until it is complete.
  void finish();

  /// By parameter name; that of a moment begins with "m." or "v.". With training.ema weights() are the average, and
  /// moments() have the weights themselves, too, whose names begin with raw_weight_prefix. Valid when complete, until
  /// the copy, or the object it is moved to, is destroyed.
  const std::vector<NamedTensor>& weights() const { return weights_; }
  const std::vector<NamedTensor>& moments() const { return moments_; }

 private:
  /// The published weights, first and second moments, and with an average the masters: the rank that keeps their parts
  /// reads them on its backend.
  static constexpr std::size_t max_arrays = 4;
  std::size_t arrays() const;
  struct Part {
    std::size_t array = 0;
    ElementRange elements;
  };
  struct Message {
    Transfer transfer;
    std::vector<Part> parts;
  };

  void name_tensors(const ParameterSpan& range);
  void plan_messages(const std::vector<ElementRange>& wanted);
  std::vector<Part> parts_of(const std::vector<ElementRange>& ranges) const;
  void add_messages(int from, int to, const std::vector<ElementRange>& kept);
  static void allocate(Message& message);
  void read(const Part& part, float* values) const;
  float* place_of(const Part& part) const;
  void start_step();

  const ModelReplica* replica_;
  ElementRange shard_;                                       // elements of this rank's copy, with padding
  std::array<std::unique_ptr<float[]>, max_arrays> values_;  // of the shard
  std::vector<NamedTensor> weights_, moments_;
  std::vector<std::vector<Message>> steps_;  // the messages of all ranks that travel beside one update
  std::size_t arrived_ = 0;                  // steps
};

}  // namespace babelring
