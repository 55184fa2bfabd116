#pragma once

#include <map>
#include <memory>
#include <vector>

#include "nmt/core/buffer.h"
#include "nmt/ops/cuda/attention_plan.h"
#include "nmt/ops/cuda/handles.h"
#include "nmt/ops/cuda/matmul.h"
#include "nmt/ops/cuda/repeat_values.h"
#include "nmt/ops/cuda/work_log.h"

namespace babelring::cuda {

/// An index out of range, reported by a kernel. The first report is kept. All members are 0 if there is none.
struct IndexError {
  int place = 0;  // BadIndex
  int value = 0;
  int bound = 0;
  int padding = 0;
  long long row = 0;
};

/// The lists of indices that kernels check, because they are in device memory.
enum class BadIndex : int { none, forward_ids, forward_positions, rotary_positions, backward_ids, targets };

/// The backend's resources that kernels use: one stream, which runs all ops in the order given, matmuls and scratch
/// memory. Not thread-safe; calls need the backend's device as the current one.
class CudaContext {
 public:
  CudaContext();
  CudaContext(const CudaContext&) = delete;
  CudaContext& operator=(const CudaContext&) = delete;

  WorkStream stream() const { return {stream_.get(), log_.get(), overlaps_}; }
  WorkLog& log() { return *log_; }
  RepeatValues& values() { return values_; }
  Matmul& matmul() { return matmul_; }
  const Matmul& matmul() const { return matmul_; }
  DeviceLists& lists() { return lists_; }
  TilePlans& tile_plans() { return tile_plans_; }
  PinnedStaging& staging() { return staging_; }
  /// The value of BABELRING_CUDA_ATTENTION when the context was created.
  AttentionRoute attention_route() const { return attention_route_; }
  /// Memory for intermediate results. Each op opens an Arena::Scope. The next op reuses the memory; its kernels run
  /// later on the same stream.
  Arena& scratch() { return scratch_; }
  /// The number of times that scratch memory has moved. Recordings made before the last move contain dangling
  /// addresses.
  std::int64_t scratch_moves() const { return scratch_moves_; }
  /// The buffer in which EmbeddingForward and RotaryPositions keep the sinusoids of a width and a divisor; empty before
  /// the first use.
  Buffer& sinusoids(int width, int divisor) { return sinusoids_[{width, divisor}]; }
  IndexError* index_error() const { return static_cast<IndexError*>(index_error_.data()); }
  /// Starts copying `count` floats from the device. The values are valid after await_fetched() or synchronize().
  std::shared_ptr<const std::vector<float>> fetch(const void* device, std::size_t count);
  /// Waits for the last fetch() and all work submitted before it, and fills the fetched values. If scratch memory has
  /// grown, waits for the whole stream. Throws like synchronize().
  void await_fetched();
  /// Waits for the stream, fills the fetched values, and joins scratch memory that has grown into one block. Throws
  /// Failure if a kernel has reported an index out of range since the last call.
  void synchronize();

 private:
  void report(IndexError error);

  Stream stream_;
  bool overlaps_;
  std::unique_ptr<WorkLog> log_ = std::make_unique<WorkLog>();
  PinnedStaging staging_;
  RepeatValues values_;
  Matmul matmul_;
  DeviceLists lists_;
  TilePlans tile_plans_;
  int scratch_blocks_ = 0;
  std::int64_t scratch_moves_ = 0;
  Arena scratch_;
  Buffer index_error_, fetched_error_;  // IndexError on the device; its pinned copy as of the last fetch
  Event fetched_;                       // after the last fetch
  std::map<std::pair<int, int>, Buffer> sinusoids_;
  AttentionRoute attention_route_;
};

}  // namespace babelring::cuda
