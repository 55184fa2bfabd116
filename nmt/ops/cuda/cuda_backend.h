#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "nmt/core/device_stream.h"
#include "nmt/ops/cuda/cuda_context.h"
#include "nmt/ops/cuda/handles.h"
#include "nmt/ops/cuda/repeat_cache.h"
#include "nmt/ops/every_op.h"

namespace babelring::cuda {

using Graph = Owned<cudaGraph_t, cudaGraphDestroy>;
using GraphExec = Owned<cudaGraphExec_t, cudaGraphExecDestroy>;

/// Records the work submitted to a stream, from construction to finish(), instead of running it.
class Capture {
 public:
  explicit Capture(cudaStream_t stream);
  ~Capture();
  Capture(const Capture&) = delete;
  Capture& operator=(const Capture&) = delete;

  /// Ends the recording and returns it, ready to launch. Throws Failure.
  GraphExec finish();

 private:
  cudaStream_t stream_;
  bool open_ = false;
};

/// Begin and end an NVTX range of the calling thread. Ranges nest. Nsight shows them beside the kernels launched in
/// them. Each costs a branch if no tool is attached.
void begin_range(const char* name);
void end_range();

/// A second stream on a backend's device.
class SideStream final : public DeviceStream {
 public:
  /// `backend_stream` must outlive this object.
  SideStream(int device, cudaStream_t backend_stream);

  void* handle() override;
  void after_backend() override;
  void before_backend() override;
  Buffer allocate(std::size_t bytes) override;
  void convert(ConstTensor from, Tensor to) override;
  std::unique_ptr<DeviceEvent> mark() override;

 private:
  int device_;
  cudaStream_t backend_stream_;
  Event given_, queued_;  // the last point of the backend's stream, and of this one, that the other waits for
  Stream stream_;
  std::shared_ptr<EventPool> events_ = std::make_shared<EventPool>();
};

/// Runs ops on one CUDA device. run() launches kernels on the backend's stream and returns. Wrong indices in device
/// memory (ids, targets) are reported by the next synchronize() or download().
class CudaBackend final : public EveryOp<CudaBackend> {
 public:
  /// Throws Failure if the device cannot be used.
  explicit CudaBackend(int device);

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
  bool prefers_fused_matmuls() const override { return true; }
  bool prefers_fused_bias_gradients() const override { return true; }
  LossChunks loss_chunks() const override { return loss_chunks_; }
  /// Records work as a CUDA graph at its second occurrence and replays the graph from the third on, with the current
  /// lists, dropout keys and scales. To recognize the work, calls it once with a WorkLog instead of the device.
  ConstTensor repeat(const std::function<ConstTensor()>& work) override;
  Status tune_matmuls(const std::filesystem::path& file) override { return on_device().matmul().tune(file); }
  std::vector<MatmulReport> matmul_reports() const override { return context_.matmul().reports(); }
  template <class Op>
  void launch(Op op);

 protected:
  void do_begin_range(const char* name) override { cuda::begin_range(name); }
  void do_end_range() override { cuda::end_range(); }

 private:
  Buffer do_allocate(std::size_t bytes, MemoryPurpose purpose) override;
  /// Calls `work` without submitting anything to the device. Returns the log of the submissions that it attempted.
  WorkLog::Words words_of(const std::function<void()>& work);

  /// The context, after making the device the calling thread's current one, which another backend may have changed.
  CudaContext& on_device();

  /// Makes the device current before the context's constructor allocates memory on it.
  struct Device {
    explicit Device(int number);
    int number;
  };
  Device device_;
  LossChunks loss_chunks_;
  CudaContext context_;
  std::shared_ptr<EventPool> events_ = std::make_shared<EventPool>();
  RepeatCache<GraphExec> recorded_;
  std::int64_t allocations_ = 0;  // part of the generation of recordings: after an allocation, tensors may have moved
};

}  // namespace babelring::cuda
