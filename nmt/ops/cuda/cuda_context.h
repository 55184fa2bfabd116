#pragma once

#include <map>
#include <memory>
#include <vector>

#include "nmt/core/arena.h"
#include "nmt/ops/cuda/attention_plan.h"
#include "nmt/ops/cuda/cudnn_plans.h"
#include "nmt/ops/cuda/device_lists.h"
#include "nmt/ops/cuda/handles.h"
#include "nmt/ops/cuda/products.h"
#include "nmt/ops/cuda/repeat_values.h"
#include "nmt/ops/cuda/work_log.h"

namespace babelring::cuda {

/// Where kernels report an index out of range; the first report stays. All zero: none.
struct IndexError {
  int place = 0;  // a BadIndex
  int value = 0;
  int bound = 0;
  int padding = 0;
  long long row = 0;
};

/// The lists of indices that kernels check, since the host cannot see them.
enum class BadIndex : int { none, forward_ids, forward_positions, backward_ids, targets };

/// What kernels need besides their op. One stream runs them all, in the order given.
class CudaContext {
 public:
  CudaContext();
  CudaContext(const CudaContext&) = delete;
  CudaContext& operator=(const CudaContext&) = delete;

  WorkStream stream() const { return {stream_.get(), log_.get()}; }
  WorkLog& log() { return *log_; }
  RepeatValues& values() { return values_; }
  Products& products() { return products_; }
  const Products& products() const { return products_; }
  DeviceLists& lists() { return lists_; }
  CudnnPlans& cudnn() { return cudnn_; }
  const CudnnPlans& cudnn() const { return cudnn_; }
  PinnedStaging& staging() { return staging_; }
  /// As the environment had it when the workspace was made.
  AttentionRoute attention_route() const { return attention_route_; }
  /// For intermediate results; each op takes them in an Arena::Scope of its own. Kernels of the next op that reuse the
  /// memory run after those of this one.
  Arena& scratch() { return scratch_; }
  /// How often scratch memory has moved: what was recorded before the last time points to memory that is gone.
  std::int64_t scratch_moves() const { return scratch_moves_; }
  /// Where the embedding keeps the sinusoids of a width; empty until it makes them.
  Buffer& sinusoids(std::int64_t width) { return sinusoids_[width]; }
  IndexError* index_error() const { return static_cast<IndexError*>(index_error_.data()); }
  /// The numbers are there after await_fetched() or synchronize().
  std::shared_ptr<const std::vector<float>> fetch(const void* device, std::size_t count);
  /// Waits for the last fetch() and what was given before it, and delivers what was fetched. Throws as synchronize().
  /// Waits for the whole stream where scratch memory has grown.
  void await_fetched();
  /// Waits for the stream, delivers what was fetched, and makes one block of scratch memory that has grown by several.
  /// Throws Failure, once, if a kernel found an index out of range.
  void synchronize();

 private:
  void report(IndexError error);

  Stream stream_;
  std::unique_ptr<WorkLog> log_ = std::make_unique<WorkLog>();
  PinnedStaging staging_;
  RepeatValues values_;
  Products products_;
  DeviceLists lists_;
  CudnnPlans cudnn_;
  int scratch_blocks_ = 0;
  std::int64_t scratch_moves_ = 0;
  Arena scratch_;
  Buffer index_error_, fetched_error_;  // on the device; a pinned copy of it, made by the last fetch
  Event fetched_;                       // after the last fetch
  std::map<std::int64_t, Buffer> sinusoids_;
  AttentionRoute attention_route_;
};

}  // namespace babelring::cuda
