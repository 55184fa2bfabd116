#include "tests/bench/peaks_output.h"

#include <fmt/format.h>

#include <algorithm>

namespace babelring {

MachinePeaks larger_of(const MachinePeaks& a, const MachinePeaks& b) {
  MachinePeaks peaks = a;
  for (const auto figure :
       {&MachinePeaks::bf16_flops, &MachinePeaks::bf16_flops_one_thread, &MachinePeaks::f32_flops,
        &MachinePeaks::f32_flops_one_thread, &MachinePeaks::int8_flops, &MachinePeaks::int8_flops_one_thread,
        &MachinePeaks::triad_bytes, &MachinePeaks::triad_bytes_one_thread, &MachinePeaks::read_bytes,
        &MachinePeaks::read_bytes_one_thread}) {
    peaks.*figure = std::max(a.*figure, b.*figure);
  }
  return peaks;
}

void print_peaks(const MachinePeaks& peaks) {
  fmt::print("peaks of {} threads (one): {} {:.0f} ({:.0f}), {} {:.0f} ({:.0f}) GFLOP/s; ", peaks.threads,
             peaks.bf16_instruction, peaks.bf16_flops / 1e9, peaks.bf16_flops_one_thread / 1e9, peaks.f32_instruction,
             peaks.f32_flops / 1e9, peaks.f32_flops_one_thread / 1e9);
  if (peaks.int8_flops > 0) {
    fmt::print("int8 by {} {:.0f} ({:.0f}) G/s; ", peaks.int8_instruction, peaks.int8_flops / 1e9,
               peaks.int8_flops_one_thread / 1e9);
  }
  fmt::print("triad {:.1f} ({:.1f}), read {:.1f} ({:.1f}) GB/s\n", peaks.triad_bytes / 1e9,
             peaks.triad_bytes_one_thread / 1e9, peaks.read_bytes / 1e9, peaks.read_bytes_one_thread / 1e9);
}

json::object to_json(const MachinePeaks& peaks) {
  return {{"threads", peaks.threads},
          {"bf16_gflop_per_s", peaks.bf16_flops / 1e9},
          {"bf16_gflop_per_s_one_thread", peaks.bf16_flops_one_thread / 1e9},
          {"bf16_instruction", peaks.bf16_instruction},
          {"f32_gflop_per_s", peaks.f32_flops / 1e9},
          {"f32_gflop_per_s_one_thread", peaks.f32_flops_one_thread / 1e9},
          {"f32_instruction", peaks.f32_instruction},
          {"int8_gop_per_s", peaks.int8_flops / 1e9},
          {"int8_gop_per_s_one_thread", peaks.int8_flops_one_thread / 1e9},
          {"int8_instruction", peaks.int8_instruction},
          {"triad_gb_per_s", peaks.triad_bytes / 1e9},
          {"triad_gb_per_s_one_thread", peaks.triad_bytes_one_thread / 1e9},
          {"read_gb_per_s", peaks.read_bytes / 1e9},
          {"read_gb_per_s_one_thread", peaks.read_bytes_one_thread / 1e9}};
}

}  // namespace babelring
