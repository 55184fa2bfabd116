#include <cuda_bf16.h>
#include <cuda_runtime_api.h>
#include <gmock/gmock.h>

#include <array>
#include <cmath>
#include <string>
#include <vector>

#include "nmt/ops/cuda/mma.cuh"

/// The emulation itself: correct kernels run, and faults of a device are found.
namespace babelring::cuda {

extern thread_local unsigned char dynamic_shared_bytes[];

namespace {

using testing::HasSubstr;

constexpr unsigned all_lanes = 0xffffffffU;

/// The device's memory for a test.
template <class T>
class Array {
 public:
  explicit Array(std::size_t count) : count_(count) {
    void* data = nullptr;
    EXPECT_EQ(cudaMalloc(&data, count * sizeof(T)), cudaSuccess);
    data_ = static_cast<T*>(data);
  }
  Array(const Array&) = delete;
  Array& operator=(const Array&) = delete;
  ~Array() { cudaFree(data_); }
  T* data() const { return data_; }
  void set(const std::vector<T>& values) const {
    EXPECT_EQ(cudaMemcpyAsync(data_, values.data(), values.size() * sizeof(T), cudaMemcpyHostToDevice, nullptr),
              cudaSuccess);
  }
  std::vector<T> values() const {
    std::vector<T> values(count_);
    cudaMemcpyAsync(values.data(), data_, count_ * sizeof(T), cudaMemcpyDeviceToHost, nullptr);
    return values;
  }

 private:
  std::size_t count_;
  T* data_;
};

/// Runs a kernel and waits; returns what went wrong.
template <class... Parameters, class... Arguments>
std::string run(dim3 grid, dim3 block, std::size_t shared, void (*kernel)(Parameters...), Arguments... arguments) {
  const cudaLaunchConfig_t config{grid, block, shared, nullptr, nullptr, 0};
  cudaError_t status = cudaLaunchKernelEx(&config, kernel, arguments...);
  if (status == cudaSuccess) status = cudaStreamSynchronize(nullptr);
  return status == cudaSuccess ? "" : cudaGetErrorString(status);
}

__global__ void number_kernel(int* out) {
  const unsigned block = blockIdx.x + gridDim.x * (blockIdx.y + gridDim.y * blockIdx.z);
  const unsigned threads = blockDim.x * blockDim.y * blockDim.z;
  const unsigned thread = threadIdx.x + blockDim.x * (threadIdx.y + blockDim.y * threadIdx.z);
  out[block * threads + thread] += static_cast<int>(block * threads + thread);
}

/// Thread `late` of each block does not wait for earlier kernels.
__global__ void waiting_kernel(unsigned late) {
  if (threadIdx.x != late) cudaGridDependencySynchronize();
}

TEST(EmulatedThreads, WaitForTheKernelThatTheyMayOverlap) {
  cudaLaunchAttribute overlap{cudaLaunchAttributeProgrammaticStreamSerialization, {1}};
  for (const unsigned attributes : {0U, 1U}) {
    const cudaLaunchConfig_t config{2, 64, 0, nullptr, &overlap, attributes};
    ASSERT_EQ(cudaLaunchKernelEx(&config, waiting_kernel, 64), cudaSuccess);
    EXPECT_EQ(cudaStreamSynchronize(nullptr), cudaSuccess);
    ASSERT_EQ(cudaLaunchKernelEx(&config, waiting_kernel, 5), cudaSuccess);
    const cudaError_t status = cudaStreamSynchronize(nullptr);
    if (attributes == 0) {
      EXPECT_EQ(status, cudaSuccess);
      continue;
    }
    EXPECT_THAT(cudaGetErrorString(status), testing::HasSubstr("thread (5, 0, 0) has not waited for earlier kernels"));
  }
}

TEST(EmulatedThreads, EachRunsOnce) {
  constexpr std::size_t count = 6 * 70;
  const Array<int> out(count);
  out.set(std::vector<int>(count, 7));
  EXPECT_EQ(run(dim3(3, 2), dim3(5, 7, 2), 0, number_kernel, out.data()), "");
  const std::vector<int> values = out.values();
  for (std::size_t i = 0; i < count; ++i) EXPECT_EQ(values[i], static_cast<int>(i) + 7);
}

/// Turns 100 numbers round, by way of shared memory.
__global__ void turn_kernel(float* out, bool wait) {
  __shared__ float numbers[100];
  numbers[threadIdx.x] = static_cast<float>(threadIdx.x);
  if (wait) __syncthreads();
  out[threadIdx.x] = numbers[99 - threadIdx.x];
}

TEST(EmulatedThreads, AMissingBarrierShows) {
  const Array<float> out(100);
  for (int again = 0; again < 3; ++again) {
    EXPECT_EQ(run(1, 100, 0, turn_kernel, out.data(), true), "");
    const std::vector<float> values = out.values();
    for (std::size_t i = 0; i < 100; ++i) EXPECT_EQ(values[i], static_cast<float>(99 - i));
    EXPECT_EQ(run(1, 100, 0, turn_kernel, out.data(), false), "");
    EXPECT_THAT(out.values(), testing::Contains(testing::IsNan()));
  }
}

__global__ void barrier_kernel(int* out, int way) {
  const bool first_half = threadIdx.x < 32;
  if (way == 0 && first_half) return;  // who has ended is not waited for
  if (way == 1 && first_half) out[0] = __shfl_xor_sync(all_lanes, 1, threadIdx.x < 3 ? 1 : 2);
  if (way == 2 && first_half) __syncthreads();
  if (way == 3 && threadIdx.x % 2 == 0) __syncwarp();
  if (way == 4 && threadIdx.x % 2 == 0) __shfl_xor_sync(all_lanes, 1, 1);
  if (way == 4 && threadIdx.x == 1) __syncwarp();
  __syncthreads();
}

TEST(EmulatedThreads, BarriersAreMetByAll) {
  const Array<int> out(1);
  EXPECT_EQ(run(2, 64, 0, barrier_kernel, out.data(), 0), "");
  EXPECT_EQ(run(2, 64, 0, barrier_kernel, out.data(), 1), "");
  EXPECT_THAT(run(1, 64, 0, barrier_kernel, out.data(), 2),
              HasSubstr("block (0, 0, 0): threads wait at different barriers"));
  const std::string waiting = run(1, 64, 0, barrier_kernel, out.data(), 3);
  EXPECT_THAT(waiting, HasSubstr("threads wait for each other for ever: 32 at __syncthreads in emulation_test.cc:"));
  EXPECT_THAT(waiting, HasSubstr(", 32 at __syncwarp in emulation_test.cc:"));
  EXPECT_THAT(run(1, 64, 0, barrier_kernel, out.data(), 4), HasSubstr("warp 0: lanes diverge: "));
  EXPECT_EQ(run(2, 64, 0, barrier_kernel, out.data(), 0), "");  // and it goes on
}

__global__ void shuffle_kernel(int* out, int absent) {
  const int lane = static_cast<int>(threadIdx.x);
  if (lane == absent) return;
  const int own = 10 * lane;
  out[lane] = __shfl_xor_sync(all_lanes, own, 4) + 1000 * __shfl_down_sync(all_lanes, own, 30) +
              static_cast<int>(__ballot_sync(all_lanes, lane == 9)) + (__any_sync(all_lanes, lane == 3) ? 1 : 0) +
              (__all_sync(all_lanes, lane == 3) ? 2 : 0);
}

TEST(EmulatedThreads, LanesShuffle) {
  const Array<int> out(32);
  EXPECT_EQ(run(1, 32, 0, shuffle_kernel, out.data(), 32), "");
  const std::vector<int> values = out.values();
  for (int lane = 0; lane < 32; ++lane) {
    const int down = lane + 30 < 32 ? lane + 30 : lane;
    EXPECT_EQ(values[static_cast<std::size_t>(lane)], 10 * (lane ^ 4) + 10000 * down + (1 << 9) + 1);
  }
  EXPECT_THAT(run(1, 32, 0, shuffle_kernel, out.data(), 5),
              HasSubstr("lane 1 of a shuffle wants the value of lane 5, which takes no part"));
}

__global__ void shared_kernel(float* out, int floats) {
  auto* shared = reinterpret_cast<float*>(dynamic_shared_bytes);
  out[0] = 0;
  for (int i = 0; i < floats; ++i) out[0] += std::isnan(shared[i]) ? 1.0f : 0.0f, shared[i] = 1;
}

TEST(EmulatedThreads, SharedMemoryIsSpoiltBeforeEachBlock) {
  const Array<float> out(1);
  EXPECT_EQ(run(5, 1, 4000, shared_kernel, out.data(), 1000), "");
  EXPECT_EQ(out.values()[0], 1000);
}

TEST(EmulatedThreads, ImpossibleLaunchesAreRefused) {
  const Array<float> out(1);
  const auto launch = [&](dim3 grid, dim3 block, std::size_t shared) {
    return run(grid, block, shared, shared_kernel, out.data(), 1);
  };
  EXPECT_EQ(launch(0, 1, 4), "a grid of 0 x 1 x 1 blocks, 1 to 2147483647 x 65535 x 65535 are possible");
  EXPECT_EQ(launch(dim3(1, 65536), 1, 4),
            "a grid of 1 x 65536 x 1 blocks, 1 to 2147483647 x 65535 x 65535 are possible");
  EXPECT_EQ(launch(1, 1025, 4), "a block of 1025 x 1 x 1 threads, 1 to 1024 are possible");
  EXPECT_EQ(launch(1, dim3(1, 1, 65), 4), "a block of 1 x 1 x 65 threads, 1 to 1024 are possible");
  EXPECT_EQ(launch(1, 1, 49156), "a block with 49156 bytes of dynamic shared memory, the kernel may have 49152");
  const auto* kernel = reinterpret_cast<const void*>(&shared_kernel);
  ASSERT_EQ(cudaFuncSetAttribute(kernel, cudaFuncAttributeMaxDynamicSharedMemorySize, 232448), cudaSuccess);
  EXPECT_EQ(launch(1, 1, 49156), "");
  EXPECT_EQ(cudaFuncSetAttribute(kernel, cudaFuncAttributeMaxDynamicSharedMemorySize, 232449), cudaErrorInvalidValue);
}

struct Operands {
  int rows;
  const float* source;
};
__global__ void read_kernel(Operands operands, float* out) {
  *out = *operands.source;
}

TEST(EmulatedThreads, KernelsAreNotGivenTheHostsMemory) {
  const Array<float> out(1);
  const float of_host = 3;
  EXPECT_THAT(run(1, 1, 0, read_kernel, Operands{1, &of_host}, out.data()),
              HasSubstr("argument 1 of a kernel has the host's address 0x"));
  const Array<float> of_device(1);
  of_device.set({3});
  EXPECT_EQ(run(1, 1, 0, read_kernel, Operands{1, of_device.data()}, out.data()), "");
  EXPECT_EQ(out.values()[0], 3);
  float back = 0;
  EXPECT_EQ(cudaMemcpyAsync(&back, &of_host, 4, cudaMemcpyDeviceToHost, nullptr), cudaErrorInvalidValue);
}

/// The matrix unit's product of a [16, 16] and b [8, 16], held by lanes row by row, against plain loops.
__global__ void mma_kernel(const __nv_bfloat16* a, const __nv_bfloat16* b, float* d) {
  __shared__ __align__(16) __nv_bfloat16 shared[24 * 16];
  const unsigned lane = threadIdx.x;
  for (unsigned at = lane * 8; at < 24 * 16; at += 256)
    copy_async_16(shared + at, at < 256 ? a + at : b + at - 256, true);
  commit_copies();
  wait_copies<0>();
  __syncwarp();
  unsigned of_a[4], both_b[4];
  load_matrix_x4(of_a, shared + (lane % 16) * 16 + lane / 16 * 8);
  load_matrix_x4(both_b, shared + 256 + (lane % 8) * 16 + lane / 8 % 2 * 8);
  float sums[4] = {1, 1, 1, 1};
  const unsigned of_b[2] = {both_b[0], both_b[1]};
  mma_m16n8k16(sums, of_a, of_b);
  for (unsigned i = 0; i < 4; ++i) d[(lane / 4 + i / 2 * 8) * 8 + lane % 4 * 2 + i % 2] = sums[i];
}

TEST(EmulatedThreads, MatrixUnitsMultiply) {
  std::vector<__nv_bfloat16> a(256), b(128);
  for (std::size_t i = 0; i < 256; ++i) a[i] = __float2bfloat16(static_cast<float>(i * 37 % 19) - 9);
  for (std::size_t i = 0; i < 128; ++i) b[i] = __float2bfloat16(static_cast<float>(i * 53 % 23) - 11);
  const Array<__nv_bfloat16> of_a(256), of_b(128);
  const Array<float> d(128);
  of_a.set(a), of_b.set(b);
  EXPECT_EQ(run(1, 32, 0, mma_kernel, of_a.data(), of_b.data(), d.data()), "");
  const std::vector<float> found = d.values();
  for (std::size_t row = 0; row < 16; ++row) {
    for (std::size_t column = 0; column < 8; ++column) {
      float sum = 1;
      for (std::size_t l = 0; l < 16; ++l)
        sum += __bfloat162float(a[row * 16 + l]) * __bfloat162float(b[column * 16 + l]);
      EXPECT_EQ(found[row * 8 + column], sum);
    }
  }
}

__global__ void transpose_kernel(const __nv_bfloat16* x, unsigned* out, bool wait) {
  __shared__ __align__(16) __nv_bfloat16 shared[256];
  copy_async_16(shared + threadIdx.x * 8, x + threadIdx.x * 8, threadIdx.x != 31);
  commit_copies();
  if (wait) wait_copies<0>();
  __syncwarp();
  unsigned of[4];
  load_matrix_x4_transposed(of, shared + threadIdx.x * 8);
  for (unsigned i = 0; i < 4; ++i) out[threadIdx.x * 4 + i] = of[i];
}

TEST(EmulatedThreads, MatricesAreLoadedTransposedOnceTheirCopiesHaveArrived) {
  std::vector<__nv_bfloat16> x(256);
  for (std::size_t i = 0; i < 256; ++i) x[i].bits = static_cast<std::uint16_t>(i);
  const Array<__nv_bfloat16> from(256);
  const Array<unsigned> out(128);
  from.set(x);
  EXPECT_EQ(run(1, 32, 0, transpose_kernel, from.data(), out.data(), true), "");
  const std::vector<unsigned> found = out.values();
  for (unsigned lane = 0; lane < 32; ++lane) {
    for (unsigned matrix = 0; matrix < 4; ++matrix) {
      const auto element = [&](unsigned row, unsigned column) {
        return matrix == 3 && row == 7 ? 0 : matrix * 64 + row * 8 + column;  // the last row is outside: zeros
      };
      const unsigned column = lane / 4, row = lane % 4 * 2;
      EXPECT_EQ(found[lane * 4 + matrix], element(row, column) | element(row + 1, column) << 16);
    }
  }
  EXPECT_EQ(run(1, 32, 0, transpose_kernel, from.data(), out.data(), false), "");
  EXPECT_THAT(out.values(), testing::Each(0xffffffffU));
}

__global__ void twice_kernel(float* x) {
  *x *= 2;
}
__global__ void plus_kernel(float* x) {
  *x += 1;
}

cudaStream_t make_stream() {
  cudaStream_t stream = nullptr;
  cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking);
  return stream;
}

void launch_on(cudaStream_t stream, void (*kernel)(float*), float* x) {
  const cudaLaunchConfig_t config{1, 1, 0, stream, nullptr, 0};
  EXPECT_EQ(cudaLaunchKernelEx(&config, kernel, x), cudaSuccess);
}

TEST(EmulatedStreams, OnlyEventsOrderThem) {
  const cudaStream_t first = make_stream(), second = make_stream();
  cudaEvent_t event = nullptr;
  cudaEventCreateWithFlags(&event, cudaEventDefault);
  const Array<float> x(1);
  for (const bool ordered : {true, false}) {
    std::array<int, 20> found{};
    for (int& result : found) {
      x.set({3});
      x.values();
      launch_on(first, twice_kernel, x.data());
      cudaEventRecord(event, first);
      if (ordered) cudaStreamWaitEvent(second, event);
      launch_on(second, plus_kernel, x.data());
      cudaStreamSynchronize(second);
      cudaStreamSynchronize(first);
      result = static_cast<int>(x.values()[0]);
    }
    if (ordered) {
      EXPECT_THAT(found, testing::Each(7));
    } else {
      EXPECT_THAT(found, testing::Contains(8));
    }
  }
  cudaEventDestroy(event);
  cudaStreamDestroy(first);
  cudaStreamDestroy(second);
}

TEST(EmulatedStreams, WorkIsDoneLate) {
  const Array<float> x(1);
  void* pinned = nullptr;
  ASSERT_EQ(cudaHostAlloc(&pinned, 4, cudaHostAllocDefault), cudaSuccess);
  auto* number = static_cast<float*>(pinned);
  cudaEvent_t event = nullptr;
  cudaEventCreateWithFlags(&event, cudaEventDefault);
  *number = 1;
  cudaMemcpyAsync(x.data(), number, 4, cudaMemcpyHostToDevice, nullptr);
  *number = 2;  // too early: it has not been read
  cudaMemcpyAsync(number, x.data(), 4, cudaMemcpyDeviceToHost, nullptr);
  cudaEventRecord(event, nullptr);
  EXPECT_EQ(cudaEventQuery(event), cudaErrorNotReady);
  EXPECT_EQ(cudaEventSynchronize(event), cudaSuccess);
  EXPECT_EQ(cudaEventQuery(event), cudaSuccess);
  EXPECT_EQ(*number, 2);
  cudaEventDestroy(event);
  cudaFreeHost(pinned);
}

TEST(EmulatedStreams, GraphsAreLaunchedAgainAndAgain) {
  const cudaStream_t stream = make_stream();
  const Array<float> x(1);
  x.set({3});
  x.values();
  cudaGraph_t graph = nullptr;
  cudaGraphExec_t executable = nullptr;
  ASSERT_EQ(cudaStreamBeginCapture(stream, cudaStreamCaptureModeRelaxed), cudaSuccess);
  launch_on(stream, twice_kernel, x.data());
  launch_on(stream, plus_kernel, x.data());
  EXPECT_EQ(cudaStreamSynchronize(stream), cudaErrorStreamCaptureUnsupported);
  ASSERT_EQ(cudaStreamEndCapture(stream, &graph), cudaSuccess);
  ASSERT_EQ(cudaGraphInstantiate(&executable, graph), cudaSuccess);
  cudaGraphDestroy(graph);
  EXPECT_EQ(x.values()[0], 3);
  for (int i = 0; i < 3; ++i) cudaGraphLaunch(executable, stream);
  cudaStreamSynchronize(stream);
  EXPECT_EQ(x.values()[0], 31);
  cudaGraphExecDestroy(executable);
  cudaStreamDestroy(stream);
}

}  // namespace
}  // namespace babelring::cuda
