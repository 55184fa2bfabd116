#pragma once

#include <cstdint>

#include "nmt/core/dtype.h"

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

}  // namespace babelring
