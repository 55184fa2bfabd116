#include "nmt/ops/cpu/kernels/avx512_bf16/amx_block.h"

#include <immintrin.h>

#include <algorithm>
#include <limits>

#include "nmt/ops/cpu/kernels/avx512_bf16/amx.h"

namespace babelring::cpu::BABELRING_KERNEL_SET {
namespace {

constexpr std::int64_t sums_row_bytes = panel_width * 4;
constexpr float no_bias[panel_width] = {};

__mmask16 first_lanes(std::int64_t count) {
  return static_cast<__mmask16>(count >= 16 ? 0xffff : count <= 0 ? 0 : (1 << count) - 1);
}

__m512 widened(const BFloat16* values, __mmask16 mask) {
  return _mm512_castsi512_ps(_mm512_slli_epi32(_mm512_cvtepu16_epi32(_mm256_maskz_loadu_epi16(mask, values)), 16));
}

__m512i narrowed(__m512 left, __m512 right) {
  const __m512bh values = _mm512_cvtne2ps_pbh(right, left);
  return reinterpret_cast<const __m512i&>(values);
}

/// 16 of the 32 columns of a block's row: adds the bias, applies ReLU and gate, and stores.
struct HalfRow {
  const AmxMatmul& p;
  std::int64_t row, column;
  __mmask16 mask;

  __m512 finished(__m512 value) const {
    if (p.bias != nullptr) value = _mm512_add_ps(value, _mm512_maskz_loadu_ps(mask, p.bias + column));
    if (p.relu) value = _mm512_max_ps(_mm512_setzero_ps(), value);  // in this order NaN stays NaN
    if (p.gate == nullptr) return value;
    const __m256i gate = _mm256_maskz_loadu_epi16(mask, p.gate + row * p.gate_stride + column);
    const __mmask16 open = _mm256_cmpgt_epi16_mask(gate, _mm256_setzero_si256());
    return _mm512_maskz_mul_ps(open, value, _mm512_set1_ps(p.factor));
  }
  void store(__m512 value, float* c, bool accumulate) const {
    if (accumulate) value = _mm512_add_ps(value, _mm512_maskz_loadu_ps(mask, c));
    _mm512_mask_storeu_ps(c, mask, value);
  }
  void store(__m512 value, BFloat16* c, bool accumulate) const {
    if (accumulate) value = _mm512_add_ps(value, widened(c, mask));
    const __m256bh rounded = _mm512_cvtneps_pbh(value);
    _mm256_mask_storeu_epi16(c, mask, reinterpret_cast<const __m256i&>(rounded));
  }
};

}  // namespace

Finisher::Finisher(const AmxMatmul& matmul)
    : p_(matmul), c_row_bytes_(matmul.c_stride * (matmul.c_type == DType::f32 ? 4 : 2)) {
  stream_ = p_.stream && (reinterpret_cast<std::uintptr_t>(p_.c) | static_cast<std::uintptr_t>(c_row_bytes_)) % 64 == 0;
}

void Finisher::begin(const Block& block) {
  if (block.sums == nullptr) return;
  const bool f32 = p_.c_type == DType::f32, whole = block.column + panel_width <= p_.n;
  const bool plain = p_.bias == nullptr && !p_.relu && p_.gate == nullptr;
  path_ = whole && plain && f32 ? Path::f32 : whole && !f32 && !block.accumulate ? Path::bf16 : Path::general;
  sums_ = block.sums, row_ = block.row, column_ = block.column, accumulate_ = block.accumulate;
  left_ = std::min(panel_width, p_.m - row_);
  c_ = static_cast<char*>(p_.c) + row_ * c_row_bytes_ + column_ * (f32 ? 4 : 2);
  bias_ = p_.bias != nullptr ? p_.bias + column_ : no_bias;
}

void Finisher::add(const Block& block) {
  waiting_.back() = block;
  if (p_.gate == nullptr) return;
  const std::int64_t rows = std::min(panel_width, p_.m - block.row);
  for (std::int64_t i = 0; i < rows; ++i) {
    __builtin_prefetch(p_.gate + (block.row + i) * p_.gate_stride + block.column);
  }
}

void Finisher::turn() {
  if (left_ > 0) rows(left_);
  begin(waiting_.front());
  std::shift_left(waiting_.begin(), waiting_.end(), 1);
  waiting_.back() = {};
}

void Finisher::complete() {
  for (std::int64_t i = 0; i <= waiting_blocks; ++i) turn();
}

void Finisher::rows(std::int64_t count) {
  count = std::min(count, left_);
  if (count <= 0) return;
  left_ -= count;
  switch (path_) {
    case Path::bf16:
      bf16_rows(count);
      break;
    case Path::f32:
      f32_rows(count);
      break;
    case Path::general:
      general_rows(count);
      break;
  }
}

void Finisher::bf16_rows(std::int64_t count) {
  const __m512 left_bias = _mm512_loadu_ps(bias_), right_bias = _mm512_loadu_ps(bias_ + 16);
  const __m512 floor = _mm512_set1_ps(p_.relu ? 0.0f : -std::numeric_limits<float>::infinity());
  const __m512 factor = _mm512_set1_ps(p_.factor);
  const char* sums = sums_;
  char* c = c_;
  for (std::int64_t i = 0; i < count; ++i, sums += sums_row_bytes, c += c_row_bytes_) {
    __m512 left = _mm512_max_ps(floor, _mm512_add_ps(_mm512_load_ps(sums), left_bias));  // in this order NaN stays NaN
    __m512 right = _mm512_max_ps(floor, _mm512_add_ps(_mm512_load_ps(sums + 64), right_bias));
    if (p_.gate != nullptr) {
      const __m512i values = _mm512_loadu_si512(p_.gate + (row_ + i) * p_.gate_stride + column_);
      const __mmask32 open =
          _mm512_cmpgt_epi16_mask(values, _mm512_setzero_si512());  // bf16 and its bits agree in sign
      left = _mm512_maskz_mul_ps(static_cast<__mmask16>(open), left, factor);
      right = _mm512_maskz_mul_ps(static_cast<__mmask16>(open >> 16), right, factor);
    }
    if (stream_) {
      _mm512_stream_si512(static_cast<__m512i*>(static_cast<void*>(c)), narrowed(left, right));
    } else {
      _mm512_storeu_si512(c, narrowed(left, right));
    }
  }
  sums_ = sums, c_ = c, row_ += count;
}

void Finisher::f32_rows(std::int64_t count) {
  const char* sums = sums_;
  char* c = c_;
  for (std::int64_t i = 0; i < count; ++i, sums += sums_row_bytes, c += c_row_bytes_) {
    __m512 left = _mm512_load_ps(sums), right = _mm512_load_ps(sums + 64);
    if (accumulate_)
      left = _mm512_add_ps(left, _mm512_loadu_ps(c)), right = _mm512_add_ps(right, _mm512_loadu_ps(c + 64));
    if (stream_) {
      _mm512_stream_ps(static_cast<float*>(static_cast<void*>(c)), left);
      _mm512_stream_ps(static_cast<float*>(static_cast<void*>(c + 64)), right);
    } else {
      _mm512_storeu_ps(c, left);
      _mm512_storeu_ps(c + 64, right);
    }
  }
  sums_ = sums, c_ = c, row_ += count;
}

void Finisher::general_rows(std::int64_t count) {
  const std::int64_t columns = p_.n - column_;
  for (std::int64_t i = 0; i < count; ++i, ++row_, sums_ += sums_row_bytes, c_ += c_row_bytes_) {
    const HalfRow left{p_, row_, column_, first_lanes(columns)},
        right{p_, row_, column_ + 16, first_lanes(columns - 16)};
    const __m512 first = left.finished(_mm512_load_ps(sums_)), second = right.finished(_mm512_load_ps(sums_ + 64));
    if (p_.c_type == DType::f32) {
      auto* c = static_cast<float*>(static_cast<void*>(c_));
      left.store(first, c, accumulate_), right.store(second, c + 16, accumulate_);
    } else {
      auto* c = static_cast<BFloat16*>(static_cast<void*>(c_));
      left.store(first, c, accumulate_), right.store(second, c + 16, accumulate_);
    }
  }
}

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
