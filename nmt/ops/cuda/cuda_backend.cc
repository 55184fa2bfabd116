#include "nmt/ops/cuda/cuda_backend.h"

#include <fmt/format.h>
#include <nvtx3/nvToolsExt.h>

#include <type_traits>

#include "base/failure.h"
#include "nmt/core/memory_ledger.h"
#include "nmt/ops/cuda/launch.h"

namespace babelring::cuda {

Capture::Capture(cudaStream_t stream) : stream_(stream) {
  // Relaxed: what ops ask of the driver meanwhile, as a kernel's limits, is no part of the recording.
  require(cudaStreamBeginCapture(stream_, cudaStreamCaptureModeRelaxed), "recording a graph");
  open_ = true;
}

Capture::~Capture() {
  if (!open_) return;
  cudaGraph_t graph = nullptr;
  if (cudaStreamEndCapture(stream_, &graph) != cudaSuccess) static_cast<void>(cudaGetLastError());
  const Graph dropped(graph);
}

GraphExec Capture::finish() {
  open_ = false;
  cudaGraph_t recorded = nullptr;
  require(cudaStreamEndCapture(stream_, &recorded), "recording a graph");
  const Graph graph(recorded);
  cudaGraphExec_t executable = nullptr;
  require(cudaGraphInstantiate(&executable, graph.get(), 0), "making a graph");
  return GraphExec(executable);
}

void begin_range(const char* name) {
  nvtxRangePushA(name);
}

void end_range() {
  nvtxRangePop();
}

namespace {

/// Later work on `later` waits for all work on `earlier` so far.
void order(cudaStream_t earlier, const Event& event, cudaStream_t later) {
  require(cudaEventRecord(event.get(), earlier), "marking a stream");
  require(cudaStreamWaitEvent(later, event.get(), 0), "letting a stream wait");
}

}  // namespace

SideStream::SideStream(int device, cudaStream_t backend_stream)
    : device_(device),
      backend_stream_(backend_stream),
      given_(make_event()),
      queued_(make_event()),
      stream_(make_stream()) {}

void* SideStream::handle() {
  require(cudaSetDevice(device_), "taking the device");
  return stream_.get();
}

void SideStream::after_backend() {
  handle();
  order(backend_stream_, given_, stream_.get());
}

void SideStream::before_backend() {
  handle();
  order(stream_.get(), queued_, backend_stream_);
}

Buffer SideStream::allocate(std::size_t bytes) {
  handle();
  return allocate_device_for(name_of(MemoryPurpose::communication), bytes);
}

void SideStream::convert(ConstTensor from, Tensor to) {
  handle();
  cast(from, to, stream_.get());
}

std::unique_ptr<DeviceEvent> SideStream::mark() {
  handle();
  return record_event(device_, stream_.get(), events_);
}

namespace {

/// Throws Failure if the op has passed check() but is beyond the limits of its kernel.
template <class Op>
void check_limits(const Op& op) {
  if constexpr (std::is_same_v<Op, DecodeAttention>) {
    const std::int64_t head_width = op.q.columns() / op.heads;
    if (head_width <= widest_decoding_head) return;
    fail("{}: heads are {} wide, the GPU's kernel takes {}", op.name, head_width, widest_decoding_head);
  }
}

/// While it lives, ops put what differs between repeats where recorded kernels find it.
struct ActiveValues {
  explicit ActiveValues(CudaContext& place) : context(place) { context.values().begin(); }
  ~ActiveValues() { context.values().end(); }
  ActiveValues(const ActiveValues&) = delete;
  ActiveValues& operator=(const ActiveValues&) = delete;
  CudaContext& context;
};

/// While it lives, nothing is given to the device.
struct ActiveLog {
  explicit ActiveLog(CudaContext& place) : context(place) { context.log().begin(); }
  ~ActiveLog() { context.log().end(); }
  ActiveLog(const ActiveLog&) = delete;
  ActiveLog& operator=(const ActiveLog&) = delete;
  CudaContext& context;
};

}  // namespace

CudaBackend::Device::Device(int chosen) : number(chosen) {
  require(cudaSetDevice(number), fmt::format("taking device {}", number));
}

CudaBackend::CudaBackend(int device) : device_(device), loss_chunks_(LossChunks::on_device(memory().total)) {}

CudaContext& CudaBackend::on_device() {
  require(cudaSetDevice(device_.number), "taking the device");
  return context_;
}

Buffer CudaBackend::do_allocate(std::size_t bytes, MemoryPurpose purpose) {
  on_device();
  ++allocations_;
  return allocate_device_for(explain(purpose), bytes);
}

void CudaBackend::upload(const void* host, Tensor to) {
  if (!to.contiguous()) fail("upload: {} has a row stride of {}", to.shape.text(), to.row_stride);
  if (to.bytes() == 0 || on_device().staging().upload(to.data, host, to.bytes())) return;
  // From memory that is not pinned: the driver has taken its copy when the call returns, and in the stream it comes
  // after what still reads the tensor.
  require(cudaMemcpyAsync(to.data, host, to.bytes(), cudaMemcpyHostToDevice, context_.stream().handle()), "upload");
}

std::shared_ptr<const std::vector<float>> CudaBackend::fetch(ConstTensor from) {
  if (!from.contiguous() || from.dtype != DType::f32) {
    fail("fetch: {} {} with a row stride of {}, contiguous f32 is needed", name_of(from.dtype), from.shape.text(),
         from.row_stride);
  }
  return on_device().fetch(from.data, static_cast<std::size_t>(from.shape.elements()));
}

void CudaBackend::download(ConstTensor from, void* host) {
  if (!from.contiguous()) fail("download: {} has a row stride of {}", from.shape.text(), from.row_stride);
  if (from.bytes() == 0) return;
  require(cudaMemcpyAsync(host, from.data, from.bytes(), cudaMemcpyDeviceToHost, on_device().stream().handle()),
          "download");
  context_.synchronize();
}

void CudaBackend::await_fetched() {
  on_device().await_fetched();
}

void CudaBackend::synchronize() {
  on_device().synchronize();
}

MemoryInfo CudaBackend::memory() const {
  MemoryInfo room;
  require(cudaSetDevice(device_.number), "taking the device");
  require(cudaMemGetInfo(&room.free, &room.total), "asking for free memory");
  return room;
}

std::unique_ptr<DeviceEvent> CudaBackend::mark() {
  on_device();
  return record_event(device_.number, context_.stream().handle(), events_);
}

std::unique_ptr<DeviceStream> CudaBackend::make_stream() {
  on_device();
  return std::make_unique<SideStream>(device_.number, context_.stream().handle());
}

ConstTensor CudaBackend::repeat(const std::function<ConstTensor()>& work) {
  if (observed()) return work();
  on_device();
  const double flops_before = flops();
  ConstTensor result;
  const WorkLog::Words words = words_of([&] { result = work(); });
  const bool fits = context_.values().fit();
  recorded_.enter(allocations_ + context_.scratch_moves() + context_.values().moves());
  const GraphExec* known = fits ? recorded_.find(words) : nullptr;
  if (known == nullptr) {
    add_flops(flops_before - flops());  // they are counted again
    if (!fits || !recorded_.seen_before(words)) return work();
    const ActiveValues values(context_);
    Capture capture(context_.stream().handle());
    result = work();
    known = &recorded_.keep(words, capture.finish());
  }
  context_.values().upload(context_.stream().handle());
  require(cudaGraphLaunch(known->get(), context_.stream().handle()), "repeating a graph");
  return result;
}

WorkLog::Words CudaBackend::words_of(const std::function<void()>& work) {
  const ActiveValues values(context_);
  const ActiveLog log(context_);
  work();
  return context_.log().end();
}

std::string CudaBackend::description() const {
  cudaDeviceProp properties{};
  int driver = 0;
  require(cudaGetDeviceProperties(&properties, device_.number), "asking for the device's properties");
  require(cudaDriverGetVersion(&driver), "asking for the driver's version");
  const std::size_t blas = cublasLtGetVersion();
  const AttentionRoute route = context_.attention_route();
  const std::string forced = route == AttentionRoute::automatic ? "" : fmt::format("; attention {}", name_of(route));
  return fmt::format("cuda (device {}: {}, sm_{}{}, {:.0f} GiB; driver for CUDA {}.{}, cuBLASLt {}.{}{})",
                     device_.number, properties.name, properties.major, properties.minor,
                     static_cast<double>(properties.totalGlobalMem) / (1 << 30), driver / 1000, driver % 1000 / 10,
                     blas / 10000, blas % 10000 / 100, forced);
}

template <class Op>
void CudaBackend::launch(Op op) {
  check_limits(op);
  on_device();
  if constexpr (requires { op.key; }) {
    RepeatValues& values = context_.values();
    if (values.active()) op.key = values.key(op.key);
  }
  cuda::run(op, context_);
}

}  // namespace babelring::cuda
