#include "nmt/ops/cpu/kernels/avx512_bf16/amx_block.h"

#include <immintrin.h>

#include <algorithm>

#include "nmt/ops/cpu/kernels/avx512_bf16/amx.h"
#include "nmt/ops/cpu/kernels/avx512_bf16/amx_pack.h"

namespace babelring::cpu::BABELRING_KERNEL_SET {

PanelOfA packed_panel(const char* at) {
  return {at, 64, step_bytes, tile_bytes};
}

void multiply_block(const PanelOfA& a, const char* b, std::int64_t first, std::int64_t count, bool continued,
                    char* sums, Finisher* finisher) {
  const std::int64_t rows_a_step = (panel_width + count - 1) / count;
  char* lower = sums + 16 * block_row_bytes;
  if (continued) {
    tile_load<0>(sums, block_row_bytes), tile_load<1>(sums + 64, block_row_bytes);
    tile_load<2>(lower, block_row_bytes), tile_load<3>(lower + 64, block_row_bytes);
  } else {
    tile_zero<0>(), tile_zero<1>(), tile_zero<2>(), tile_zero<3>();
  }
  const char* top = a.at + first * a.next_step;
  b += first * step_bytes;
  for (std::int64_t step = 0; step < count; ++step, top += a.next_step, b += step_bytes) {
    tile_load<4>(top, a.row_bytes);
    tile_stream<6>(b, 64);
    tile_stream<7>(b + tile_bytes, 64);
    tile_load<5>(top + a.second_tile, a.row_bytes);
    tile_multiply<0, 4, 6>(), tile_multiply<1, 4, 7>();
    tile_multiply<2, 5, 6>(), tile_multiply<3, 5, 7>();
    if (finisher != nullptr) finisher->rows(rows_a_step);
  }
  tile_store<0>(sums, block_row_bytes), tile_store<1>(sums + 64, block_row_bytes);
  tile_store<2>(lower, block_row_bytes), tile_store<3>(lower + 64, block_row_bytes);
}

void BlockMultiplier::row(const PanelOfA& a, const PanelsOfB& b, std::int64_t steps, std::int64_t m, std::int64_t n,
                          const Sums& sums) {
  for (std::int64_t step = 0; step < steps; step += steps_limit) {
    const std::int64_t part = std::min(steps_limit, steps - step);
    for (std::int64_t j = 0; j < b.count; ++j) {
      char* block = sums.kept != nullptr ? sums.kept + j * block_bytes : ring_ + (turn_ + j) % blocks_ * block_bytes;
      finisher_.turn();
      multiply_block(a, b.at + j * b.panel_bytes, step, part, step > 0 || sums.continued, block, &finisher_);
      if (step + part < steps || !sums.last) continue;
      finisher_.add({block, m * panel_width, (n + j) * panel_width, sums.accumulate});
    }
  }
  turn_ += b.count;
}

void BlockMultiplier::complete() {
  finisher_.complete();
  _mm_sfence();  // after stores past the caches
}

}  // namespace babelring::cpu::BABELRING_KERNEL_SET
