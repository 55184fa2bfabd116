#include "nmt/ops/cuda/cuda_backend.h"

#include <fmt/format.h>

#include "nmt/base/failure.h"
#include "nmt/ops/cuda/event_marks.h"
#include "nmt/ops/cuda/kernels.h"
#include "nmt/ops/cuda/side_stream.h"

namespace babelring::cuda {

namespace {

void check_mask(std::string_view op, const ConstTensor& mask, std::int64_t words) {
  if (mask.shape[1] != words) fail("{}: relu_mask has {} words a row, {} are needed", op, mask.shape[1], words);
  if (reinterpret_cast<std::uintptr_t>(mask.data) % 256 != 0) fail("{}: relu_mask is not aligned to 256 bytes", op);
}

}  // namespace

CudaBackend::Device::Device(int chosen) : number(chosen) {
  require(cudaSetDevice(number), fmt::format("taking device {}", number));
}

CudaBackend::CudaBackend(int device) : device_(device), loss_chunks_(LossChunks::on_device(memory().total)) {}

Workspace& CudaBackend::on_device() {
  require(cudaSetDevice(device_.number), "taking the device");
  return workspace_;
}

Buffer CudaBackend::allocate(std::size_t bytes) {
  on_device();
  ++allocations_;
  return allocate_device_for(allocation_purpose(), bytes);
}

void CudaBackend::upload(const void* host, Tensor to) {
  if (!to.contiguous()) fail("upload: {} has a row stride of {}", to.shape.text(), to.row_stride);
  if (to.bytes() == 0 || on_device().staging().upload(to.data, host, to.bytes())) return;
  // From memory that is not pinned: the driver has taken its copy when the call returns, and in the stream it comes
  // after what still reads the tensor.
  require(cudaMemcpyAsync(to.data, host, to.bytes(), cudaMemcpyHostToDevice, workspace_.stream()), "upload");
}

std::shared_ptr<const std::vector<float>> CudaBackend::fetch(ConstTensor from) {
  if (!from.contiguous() || from.dtype != DType::f32) {
    fail("fetch: {} {} with a row stride of {}, contiguous f32 is needed", name_of(from.dtype), from.shape.text(),
         from.row_stride);
  }
  return on_device().staging().fetch(from.data, static_cast<std::size_t>(from.shape.elements()));
}

void CudaBackend::download(ConstTensor from, void* host) {
  if (!from.contiguous()) fail("download: {} has a row stride of {}", from.shape.text(), from.row_stride);
  if (from.bytes() == 0) return;
  require(cudaMemcpyAsync(host, from.data, from.bytes(), cudaMemcpyDeviceToHost, on_device().stream()), "download");
  workspace_.synchronize();
}

void CudaBackend::synchronize() {
  on_device().synchronize();
}

MemoryRoom CudaBackend::memory() const {
  MemoryRoom room;
  require(cudaSetDevice(device_.number), "taking the device");
  require(cudaMemGetInfo(&room.free, &room.total), "asking for free memory");
  return room;
}

std::unique_ptr<WorkMarks> CudaBackend::make_marks() {
  on_device();
  return std::make_unique<EventMarks>(workspace_.stream());
}

std::unique_ptr<DeviceStream> CudaBackend::make_stream() {
  on_device();
  return std::make_unique<SideStream>(device_.number, workspace_.stream());
}

std::int64_t CudaBackend::relu_mask_words(const LinearForward& op) {
  return cuda::relu_mask_words(op, on_device());
}

ConstTensor CudaBackend::repeat(const std::vector<std::int64_t>& key, const std::function<ConstTensor()>& work) {
  if (observed()) return work();
  on_device();
  recorded_.enter(allocations_ + workspace_.scratch_moves());
  RecordedWork* known = recorded_.find(key);
  if (known == nullptr) {
    if (!recorded_.seen_before(key)) return work();  // which makes what memory and plans the ops need
    const double flops_before = flops();
    Capture capture(workspace_.stream(), workspace_.lists());
    const ConstTensor result = work();
    RecordedWork recording = capture.finish();
    recording.result = result;
    recording.flops = flops() - flops_before;
    known = &recorded_.keep(key, std::move(recording));
  } else {
    add_flops(known->flops);
  }
  require(cudaGraphLaunch(known->graph.get(), workspace_.stream()), "repeating a graph");
  return known->result;
}

std::string CudaBackend::description() const {
  cudaDeviceProp properties{};
  int driver = 0;
  require(cudaGetDeviceProperties(&properties, device_.number), "asking for the device's properties");
  require(cudaDriverGetVersion(&driver), "asking for the driver's version");
  const std::size_t blas = cublasLtGetVersion();
  const AttentionRoute route = workspace_.attention_route();
  const std::string forced = route == AttentionRoute::automatic ? "" : fmt::format("; attention {}", name_of(route));
  return fmt::format("cuda (device {}: {}, sm_{}{}, {:.0f} GiB; driver for CUDA {}.{}, cuBLASLt {}.{}, {}{})",
                     device_.number, properties.name, properties.major, properties.minor,
                     static_cast<double>(properties.totalGlobalMem) / (1 << 30), driver / 1000, driver % 1000 / 10,
                     blas / 10000, blas % 10000 / 100, workspace_.cudnn().description(), forced);
}

void CudaBackend::do_run(const LinearForward& op) {
  if (op.relu_mask) check_mask(op.name, op.relu_mask, relu_mask_words(op));
  cuda::run(op, on_device());
}
void CudaBackend::do_run(const LinearBackwardData& op) {
  if (op.relu_mask) check_mask(op.name, op.relu_mask, cuda::relu_mask_words(op.dx.columns()));
  cuda::run(op, on_device());
}
void CudaBackend::do_run(const LinearBackwardWeight& op) {
  cuda::run(op, on_device());
}
void CudaBackend::do_run(const LayerNormForward& op) {
  cuda::run(op, on_device());
}
void CudaBackend::do_run(const ResidualNormForward& op) {
  cuda::run(op, on_device());
}
void CudaBackend::do_run(const LayerNormBackward& op) {
  cuda::run(op, on_device());
}
void CudaBackend::do_run(const Dropout& op) {
  cuda::run(op, on_device());
}
void CudaBackend::do_run(const ResidualDropout& op) {
  cuda::run(op, on_device());
}
void CudaBackend::do_run(const EmbeddingForward& op) {
  cuda::run(op, on_device());
}
void CudaBackend::do_run(const EmbeddingBackward& op) {
  cuda::run(op, on_device());
}
void CudaBackend::do_run(const AttentionForward& op) {
  cuda::run(op, on_device());
}
void CudaBackend::do_run(const AttentionBackward& op) {
  cuda::run(op, on_device());
}
void CudaBackend::do_run(const DecodeAttention& op) {
  const std::int64_t head_width = op.q.columns() / op.heads;
  if (head_width > widest_decoding_head) {
    fail("{}: heads are {} wide, the GPU's kernel takes {}", op.name, head_width, widest_decoding_head);
  }
  cuda::run(op, on_device());
}
void CudaBackend::do_run(const CrossEntropy& op) {
  cuda::run(op, on_device());
}
void CudaBackend::do_run(const LogSoftmaxTopK& op) {
  cuda::run(op, on_device());
}
void CudaBackend::do_run(const AdamUpdate& op) {
  cuda::run(op, on_device());
}
void CudaBackend::do_run(const SquaredNorm& op) {
  cuda::run(op, on_device());
}
void CudaBackend::do_run(const SumWithNorm& op) {
  cuda::run(op, on_device());
}
void CudaBackend::do_run(const Cast& op) {
  cuda::run(op, on_device());
}
void CudaBackend::do_run(const Fill& op) {
  cuda::run(op, on_device());
}
void CudaBackend::do_run(const Add& op) {
  cuda::run(op, on_device());
}

}  // namespace babelring::cuda
