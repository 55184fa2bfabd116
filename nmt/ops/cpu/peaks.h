#pragma once

#include <cstdint>
#include <string>

#include "nmt/core/tensor.h"

namespace babelring {

class Backend;

/// Peak rates of a device: floating-point operations and memory bytes per second.
struct PeakRates {
  double flops = 0, bytes_per_second = 0;
};

/// The sizes of operands on a device that has its own memory.
struct PeakOperands {
  std::int64_t matmul_edge = 4096;                 // of square matrices
  std::int64_t elements = std::int64_t{32} << 20;  // of f32 arrays
};

/// Measures the rates of the backend's device for products of this type. On the host, `threads` threads multiply and
/// add with operands in registers, then stream through memory; on a device, a large product and a sum of arrays. Takes
/// about `seconds`. Allocates 48 MiB a thread, or 336 MiB on a device, and releases them.
PeakRates measure_peak_rates(Backend& backend, DType type, int threads, double seconds = 0.2,
                             const PeakOperands& operands = {});

/// Rates of this machine at this moment, measured by small kernels: floating-point operations and bytes per second.
struct MachinePeaks {
  int threads = 1;
  double bf16_flops = 0, bf16_flops_one_thread = 0;    // multiply-adds of bf16 with f32 sums, operands in registers
  double f32_flops = 0, f32_flops_one_thread = 0;      // fused multiply-adds of f32, operands in registers
  double int8_flops = 0, int8_flops_one_thread = 0;    // multiply-adds of bytes with 32-bit sums, or f32's if faster
  double triad_bytes = 0, triad_bytes_one_thread = 0;  // a = b + s c, a written past the caches: 12 bytes an element
  double read_bytes = 0, read_bytes_one_thread = 0;    // a sum
  // Measured: "amx", "avx512_vnni", "avx512_bf16", "avx512f", "avx2", …
  std::string bf16_instruction, f32_instruction, int8_instruction;

  /// The rate of all threads with operands of this type.
  double flops(DType type) const {
    return type == DType::int8 ? int8_flops : type == DType::bf16 ? bf16_flops : f32_flops;
  }
};

/// Each of the eight figures takes `seconds`, and 288 MiB a thread are allocated. The OpenMP team of the caller works.
MachinePeaks measure_machine_peaks(int threads, double seconds = 0.1);

/// The rates that `threads` threads reach together: multiply-adds as above for products of this type, and the triad.
/// Takes about `seconds`, and 48 MiB a thread meanwhile.
PeakRates measure_processor_rates(DType type, int threads, double seconds);

}  // namespace babelring
