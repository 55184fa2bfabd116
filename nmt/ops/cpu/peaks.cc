#include "nmt/ops/cpu/peaks.h"

#include <immintrin.h>
#include <omp.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cstdint>
#include <functional>
#include <memory>
#include <vector>

#include "base/clock.h"
#include "nmt/core/buffer.h"
#include "nmt/core/random.h"
#include "nmt/ops/backend.h"
#include "nmt/ops/elementwise.h"

namespace babelring {
namespace {

/// Allocates a tensor and fills it with numbers in [-1, 1): zeros would be multiplied faster.
template <class Element>
Tensor filled(Backend& backend, Buffer& buffer, const Shape& shape) {
  std::vector<Element> values(static_cast<std::size_t>(shape.elements()));
  Random random(1);
  const std::size_t drawn = std::min<std::size_t>(values.size(), std::size_t{1} << 16);
  for (std::size_t i = 0; i < drawn; ++i)
    values[i] = static_cast<Element>(static_cast<float>(2 * random.uniform() - 1));
  for (std::size_t i = drawn; i < values.size(); ++i) values[i] = values[i - drawn];
  buffer = backend.allocate(values.size() * sizeof(Element));
  const Tensor tensor = buffer.view(shape, dtype_of<Element>);
  backend.upload(values.data(), tensor);
  return tensor;
}

/// `units` of one call of the op, a second.
template <class Op>
double op_rate(Backend& backend, const Op& op, double units, double seconds) {
  const auto ms_of_calls = [&](int calls) {
    const Stopwatch watch;
    for (int i = 0; i < calls; ++i) backend.run(op);
    backend.synchronize();
    return watch.elapsed_ms();
  };
  ms_of_calls(1);
  const double once = std::max(ms_of_calls(1), 1e-3);
  const int calls = static_cast<int>(std::clamp(seconds * 1e3 / once, 1.0, 1e5));
  return units * calls / std::max(ms_of_calls(calls), 1e-6) * 1e3;
}

PeakRates measure_device_rates(Backend& backend, DType type, double seconds, const PeakOperands& operands) {
  Buffer x, y;
  const Shape square{operands.matmul_edge, operands.matmul_edge};
  const Tensor operand = type == DType::bf16 ? filled<BFloat16>(backend, x, square) : filled<float>(backend, x, square);
  y = backend.allocate(static_cast<std::size_t>(square.elements()) * size_of(type));
  const LinearForward product{.x = operand, .weight = operand, .y = y.view(square, type)};
  PeakRates rates{.flops = op_rate(backend, product, product.flops(), seconds / 2)};
  const Tensor from = filled<float>(backend, x, {operands.elements});
  const Tensor to = filled<float>(backend, y, {operands.elements});
  const Add add{.x = from, .y = to};
  rates.bytes_per_second = op_rate(backend, add, cost_of(add).bytes, seconds / 2);
  return rates;
}

}  // namespace

PeakRates measure_peak_rates(Backend& backend, DType type, int threads, double seconds, const PeakOperands& operands) {
  return backend.host_memory() ? measure_processor_rates(type, threads, seconds)
                               : measure_device_rates(backend, type, seconds, operands);
}

namespace {

constexpr int rounds = 20000;

/// Each does `rounds` rounds with operands in registers and returns the floating-point operations.
using Kernel = double (*)();

struct alignas(64) TileConfig {
  std::uint8_t palette = 1, start_row = 0;
  std::array<std::uint8_t, 14> reserved{};
  std::array<std::uint16_t, 16> row_bytes{};
  std::array<std::uint8_t, 16> rows{};
};

/// bf16 numbers of either sign between 2^-7 and 2^-6, as an operand's four tiles. Zeros would not do: they need less
/// power and are multiplied up to a fifth faster.
struct alignas(64) TileOperands {
  std::array<std::uint16_t, 4 * 512> values;
  TileOperands() {
    std::uint32_t state = 1;
    for (std::uint16_t& value : values) {
      state = state * 1664525U + 1013904223U;
      value = static_cast<std::uint16_t>(0x3c00U | (state >> 16 & 0x807fU));
    }
  }
};

/// Enough sums in flight to hide the latency of two units.
constexpr std::size_t sums_in_flight = 16;

}  // namespace

// Code for an instruction set is in the namespace of that set, as kernels are (tests/nmt/ops/baseline_test.py).
namespace cpu::avx512_bf16 {
namespace {

/// Tiles 0-3 collect the products of tiles 4-5 with tiles 6-7, as a matmul's inner loop does.
__attribute__((target("amx-tile,amx-bf16"))) double tiles() {
  TileConfig config;
  for (std::size_t tile = 0; tile < 8; ++tile) {
    config.row_bytes[tile] = 64;
    config.rows[tile] = 16;
  }
  asm volatile("" : : "r"(&config) : "memory");  // g++ 12 believes that the next line reads 8 bytes only
  _tile_loadconfig(&config);
  _tile_zero(0);
  _tile_zero(1);
  _tile_zero(2);
  _tile_zero(3);
  const TileOperands operands;
  _tile_loadd(4, operands.values.data(), 64);
  _tile_loadd(5, operands.values.data() + 512, 64);
  _tile_loadd(6, operands.values.data() + 1024, 64);
  _tile_loadd(7, operands.values.data() + 1536, 64);
  for (int round = 0; round < rounds; ++round) {
    _tile_dpbf16ps(0, 4, 6);
    _tile_dpbf16ps(1, 4, 7);
    _tile_dpbf16ps(2, 5, 6);
    _tile_dpbf16ps(3, 5, 7);
  }
  _tile_release();
  return 4.0 * 2 * 16 * 16 * 32 * rounds;
}

__attribute__((target("avx512f,avx512bf16"))) double multiply_add() {
  __m512 sums[sums_in_flight];
  for (__m512& sum : sums) sum = _mm512_setzero_ps();
  const __m512 ones = _mm512_set1_ps(1e-3f);
  const __m512bh a = _mm512_cvtne2ps_pbh(ones, ones);
  for (int round = 0; round < rounds; ++round) {
    for (__m512& sum : sums) {
      sum = _mm512_dpbf16_ps(sum, a, a);
      asm volatile("" : "+v"(sum));  // keeps the sum in its register and the loop in place
    }
  }
  return static_cast<double>(sums_in_flight) * 2 * 32 * rounds;
}

}  // namespace
}  // namespace cpu::avx512_bf16

namespace cpu::avx512_vnni {
namespace {

__attribute__((target("avx512f,avx512vnni"))) double multiply_add() {
  __m512i sums[sums_in_flight];
  // Unrolled: else g++ 12 clears the array in memory and leaves it there.
#pragma GCC unroll 16
  for (__m512i& sum : sums) sum = _mm512_setzero_si512();
  const __m512i a = _mm512_set1_epi32(0x25374153);  // bytes of several values
  for (int round = 0; round < rounds; ++round) {
#pragma GCC unroll 16
    for (__m512i& sum : sums) {
      sum = _mm512_dpbusd_epi32(sum, a, a);
      asm volatile("" : "+v"(sum));
    }
  }
  return static_cast<double>(sums_in_flight) * 2 * 64 * rounds;
}

}  // namespace
}  // namespace cpu::avx512_vnni

namespace cpu::avx512 {
namespace {

__attribute__((target("avx512f"))) double multiply_add() {
  __m512 sums[sums_in_flight];
  for (__m512& sum : sums) sum = _mm512_setzero_ps();
  const __m512 a = _mm512_set1_ps(0.5f);
  for (int round = 0; round < rounds; ++round) {
    for (__m512& sum : sums) {
      sum = _mm512_fmadd_ps(sum, a, a);
      asm volatile("" : "+v"(sum));
    }
  }
  return static_cast<double>(sums_in_flight) * 2 * 16 * rounds;
}

}  // namespace
}  // namespace cpu::avx512

namespace cpu::avx2 {
namespace {

__attribute__((target("avx2,fma"))) double multiply_add() {
  __m256 sums[10];  // of 16 registers
  for (__m256& sum : sums) sum = _mm256_setzero_ps();
  const __m256 a = _mm256_set1_ps(0.5f);
  for (int round = 0; round < rounds; ++round) {
    for (__m256& sum : sums) {
      sum = _mm256_fmadd_ps(sum, a, a);
      asm volatile("" : "+x"(sum));
    }
  }
  return 10.0 * 2 * 8 * rounds;
}

}  // namespace
}  // namespace cpu::avx2

namespace {

double sse_f32() {
  __m128 sums[10];
  for (__m128& sum : sums) sum = _mm_setzero_ps();
  const __m128 a = _mm_set1_ps(0.5f);
  for (int round = 0; round < rounds; ++round) {
    for (__m128& sum : sums) {
      sum = _mm_add_ps(_mm_mul_ps(sum, a), a);
      asm volatile("" : "+x"(sum));
    }
  }
  return 10.0 * 2 * 4 * rounds;
}

/// The kernel must grant a process the 8 KiB of tiles (Linux 5.16 or newer).
bool amx_granted() {
  constexpr long request_permission = 0x1023, tile_data = 18;
  return __builtin_cpu_supports("amx-bf16") && syscall(SYS_arch_prctl, request_permission, tile_data) == 0;
}

struct Chosen {
  Kernel kernel;
  std::string name;
};

Chosen f32_kernel() {
  if (__builtin_cpu_supports("avx512f")) return {cpu::avx512::multiply_add, "avx512f"};
  if (__builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma")) return {cpu::avx2::multiply_add, "avx2"};
  return {sse_f32, "sse"};
}

/// Without tiles, the faster of bf16's own instruction and converted f32: the former has half the rate on some.
Chosen bf16_kernel(const std::function<double(Kernel)>& rate) {
  if (amx_granted()) return {cpu::avx512_bf16::tiles, "amx"};
  const Chosen f32 = f32_kernel();
  const bool own = __builtin_cpu_supports("avx512bf16") && rate(cpu::avx512_bf16::multiply_add) > rate(f32.kernel);
  return own ? Chosen{cpu::avx512_bf16::multiply_add, "avx512_bf16"} : f32;
}

Chosen int8_kernel() {
  return __builtin_cpu_supports("avx512vnni") ? Chosen{cpu::avx512_vnni::multiply_add, "avx512_vnni"} : f32_kernel();
}

/// Units a second that `threads` do together; work(thread) does some and returns how many.
double rate_of(int threads, double seconds, const std::function<double(int)>& work) {
  double total = 0;
#pragma omp parallel num_threads(threads) reduction(+ : total)
  {
    const int thread = omp_get_thread_num();
    work(thread);
#pragma omp barrier
    const Stopwatch watch;
    double done = 0;
    do done += work(thread);
    while (watch.elapsed_ms() < seconds * 1e3);
    total += done / watch.elapsed_ms() * 1e3;
  }
  return total;
}

/// Three arrays a thread, each far larger than its part of the caches.
class MemoryKernels {
 public:
  explicit MemoryKernels(int threads, std::size_t count = std::size_t{24} << 20) : count_(count) {
    for (int thread = 0; thread < threads; ++thread) buffers_.push_back(allocate_host(3 * count * sizeof(float)));
  }

  /// One chunk, and returns its bytes; the chunks go round the arrays.
  double triad(int thread) const {
    float* a = chunk(thread);
    const float *b = a + count_, *c = b + count_;
    const __m128 scale = _mm_set1_ps(3.0f);
    for (std::size_t i = 0; i < step; i += 4) {
      _mm_stream_ps(a + i, _mm_add_ps(_mm_load_ps(b + i), _mm_mul_ps(scale, _mm_load_ps(c + i))));
    }
    _mm_sfence();
    return 3.0 * sizeof(float) * step;
  }
  double read(int thread) const {
    const float* a = chunk(thread);
    __m128 sums[8] = {};
    for (std::size_t i = 0; i < step; i += 32) {
      for (std::size_t j = 0; j < 8; ++j) sums[j] = _mm_add_ps(sums[j], _mm_load_ps(a + i + 4 * j));
    }
    for (__m128& sum : sums) asm volatile("" : "+x"(sum));
    return static_cast<double>(sizeof(float)) * step;
  }

 private:
  static constexpr std::size_t step = std::size_t{1} << 20;
  float* chunk(int thread) const {
    thread_local std::size_t next = 0;
    next = (next + step) % count_;
    return static_cast<float*>(buffers_[static_cast<std::size_t>(thread)].data()) + next;
  }
  std::size_t count_;  // of an array; a multiple of `step`
  std::vector<Buffer> buffers_;
};

double kernel_rate(int threads, double seconds, Kernel kernel) {
  return rate_of(threads, seconds, [kernel](int) { return kernel(); });
}

}  // namespace

PeakRates measure_processor_rates(DType type, int threads, double seconds) {
  const auto rate = [=](Kernel kernel) { return kernel_rate(threads, seconds / 8, kernel); };
  const Chosen chosen = type == DType::bf16 ? bf16_kernel(rate) : f32_kernel();
  PeakRates rates{.flops = kernel_rate(threads, seconds / 2, chosen.kernel)};
  const MemoryKernels memory(threads, std::size_t{4} << 20);
  const auto triad = [&](int thread) { return memory.triad(thread); };
  for (int chunk = 0; chunk < 4; ++chunk) rate_of(threads, 0, triad);  // maps the memory
  rates.bytes_per_second = rate_of(threads, seconds / 2, triad);
  return rates;
}

MachinePeaks measure_machine_peaks(int threads, double seconds) {
  const auto arithmetic = [=](int team, Kernel kernel) { return kernel_rate(team, seconds, kernel); };
  const Chosen f32 = f32_kernel(), bf16 = bf16_kernel([&](Kernel kernel) { return arithmetic(threads, kernel); });
  const Chosen int8 = int8_kernel();
  MachinePeaks peaks{
      .threads = threads, .bf16_instruction = bf16.name, .f32_instruction = f32.name, .int8_instruction = int8.name};
  peaks.int8_flops_one_thread = arithmetic(1, int8.kernel);
  peaks.int8_flops = arithmetic(threads, int8.kernel);
  peaks.bf16_flops_one_thread = arithmetic(1, bf16.kernel);
  peaks.f32_flops_one_thread = arithmetic(1, f32.kernel);
  peaks.bf16_flops = arithmetic(threads, bf16.kernel);
  peaks.f32_flops = arithmetic(threads, f32.kernel);
  const MemoryKernels memory(threads);
  const auto triad = [&](int thread) { return memory.triad(thread); };
  const auto read = [&](int thread) { return memory.read(thread); };
  peaks.triad_bytes = rate_of(threads, seconds, triad);
  peaks.read_bytes = rate_of(threads, seconds, read);
  peaks.triad_bytes_one_thread = rate_of(1, seconds, triad);
  peaks.read_bytes_one_thread = rate_of(1, seconds, read);
  return peaks;
}

}  // namespace babelring
