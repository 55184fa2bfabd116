#pragma once

#include <string>

#include "nmt/ops/cuda/cuda_context.h"
#include "nmt/ops/cuda/cuda_events.h"
#include "nmt/ops/cuda/graph.h"
#include "nmt/ops/cuda/ranges.h"
#include "nmt/ops/cuda/repeat_cache.h"
#include "nmt/ops/every_op.h"

namespace babelring::cuda {

/// Ops on one CUDA device. run() launches and returns; kernels run one after another on a stream of the backend's.
/// Indices that only the device can see (ids, targets) are found wrong at the next synchronize() or download().
class CudaBackend final : public EveryOp<CudaBackend> {
 public:
  /// Throws Failure if the device cannot be used.
  explicit CudaBackend(int device);

  Buffer allocate(std::size_t bytes) override;
  void upload(const void* host, Tensor to) override;
  void download(ConstTensor from, void* host) override;
  std::shared_ptr<const std::vector<float>> fetch(ConstTensor from) override;
  void await_fetched() override;
  void synchronize() override;
  std::string description() const override;
  bool host_memory() const override { return false; }
  MemoryInfo memory() const override;
  std::unique_ptr<DeviceEvent> mark() override;
  std::unique_ptr<DeviceStream> make_stream() override;
  std::int64_t epilogue_aux_words(const LinearForward& op) override;
  bool prefers_fused_matmuls() const override { return true; }
  LossChunks loss_chunks() const override { return loss_chunks_; }
  /// Records work as a CUDA graph when it is given for the second time, and repeats that from the third time on, with
  /// the lists, keys of dropout and scales of the time. What makes it the same work is found by calling it without
  /// giving anything to the device.
  ConstTensor repeat(const std::function<ConstTensor()>& work) override;
  std::string tune_matmuls(const std::filesystem::path& file) override { return on_device().products().tune(file); }
  std::vector<MatmulReport> matmul_reports() const override { return workspace_.products().reports(); }
  template <class Op>
  void launch(Op op);

 protected:
  void do_begin_range(const char* name) override { cuda::begin_range(name); }
  void do_end_range() override { cuda::end_range(); }

 private:
  /// What the work would give to the device, which is given nothing.
  WorkLog::Words words_of(const std::function<void()>& work);

  /// The current device is a thread's own setting, and another backend of the thread may have changed it.
  CudaContext& on_device();

  /// Makes a device the thread's current one before the workspace takes memory there.
  struct Device {
    explicit Device(int number);
    int number;
  };
  Device device_;
  LossChunks loss_chunks_;
  CudaContext workspace_;
  std::shared_ptr<EventPool> events_ = std::make_shared<EventPool>();
  RepeatCache<GraphExec> recorded_;
  std::int64_t allocations_ = 0;  // a recording is dropped after the next one: its tensors may lie elsewhere then
};

}  // namespace babelring::cuda
