#pragma once

#include <string>

#include "nmt/core/dtype.h"
#include "nmt/ops/peak_rates.h"

namespace babelring {

/// Rates of this machine at this moment, measured by small kernels: floating-point operations and bytes per second.
struct MachinePeaks {
  int threads = 1;
  double bf16_flops = 0, bf16_flops_one_thread = 0;    // multiply-adds of bf16 with f32 sums, operands in registers
  double f32_flops = 0, f32_flops_one_thread = 0;      // fused multiply-adds of f32, operands in registers
  double triad_bytes = 0, triad_bytes_one_thread = 0;  // a = b + s c, a written past the caches: 12 bytes an element
  double read_bytes = 0, read_bytes_one_thread = 0;    // a sum
  std::string bf16_instruction, f32_instruction;       // measured: "amx", "avx512_bf16", "avx512f", "avx2", …
};

/// Each of the eight figures takes `seconds`, and 288 MiB a thread are allocated. The OpenMP team of the caller works.
MachinePeaks measure_machine_peaks(int threads, double seconds = 0.1);

/// The rates that `threads` threads reach together: multiply-adds as above for products of this type, and the triad.
/// Takes about `seconds`, and 48 MiB a thread meanwhile.
PeakRates measure_processor_rates(DType type, int threads, double seconds);

}  // namespace babelring
