#pragma once

#include <array>
#include <cstdint>

#include "nmt/ops/cpu/kernels/avx512_bf16/amx_matmul.h"

namespace babelring::cpu::BABELRING_KERNEL_SET {

/// Takes the sums of blocks of 32 x 32 to a matmul's result, a few rows at a time, while later blocks are multiplied.
/// A block waits for two others first: its sums leave the tiles long after the instructions that store them.
class Finisher {
 public:
  static constexpr std::int64_t waiting_blocks = 2;

  struct Block {
    const char* sums = nullptr;  // 32 rows of 32 floats; null: none
    std::int64_t row = 0, column = 0;
    bool accumulate = false;
  };

  explicit Finisher(const AmxMatmul& matmul);

  /// Before each multiplication: completes what rows() left, and goes on to the block that has waited longest.
  void turn();
  /// The block that was multiplied in this turn.
  void add(const Block& block);
  /// The next `count` rows of the current block, or as many as are left.
  void rows(std::int64_t count);
  /// Everything.
  void complete();

 private:
  enum class Path { general, bf16, f32 };
  void begin(const Block& block);
  void general_rows(std::int64_t count);
  void bf16_rows(std::int64_t count);
  void f32_rows(std::int64_t count);

  const AmxMatmul& p_;
  bool stream_;  // past the caches, in whole lines
  std::array<Block, waiting_blocks> waiting_;
  Path path_ = Path::general;
  const char* sums_ = nullptr;
  std::int64_t row_ = 0, left_ = 0, column_ = 0;  // rows [row_, row_ + left_) of the current block are still to do
  bool accumulate_ = false;
  char* c_ = nullptr;            // of row_
  const float* bias_ = nullptr;  // of the current block's columns
  std::int64_t c_row_bytes_;
};

}  // namespace babelring::cpu::BABELRING_KERNEL_SET
