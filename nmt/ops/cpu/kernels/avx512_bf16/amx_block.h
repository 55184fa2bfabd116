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

inline constexpr std::int64_t block_bytes = 4096;     // 32 x 32 sums
inline constexpr std::int64_t block_row_bytes = 128;  // one of its rows
inline constexpr std::int64_t steps_limit = 16;  // of one multiplication: 32 KiB of A stay in the first-level cache

/// Panels of 32 that cover `count` rows or columns.
constexpr std::int64_t panels_of(std::int64_t count) {
  return (count + 31) / 32;
}

/// 32 rows of A as tiles: where they are and how far apart, in bytes.
struct PanelOfA {
  const char* at;
  std::int64_t row_bytes, next_step, second_tile;
};

/// A panel as the pack functions leave it.
PanelOfA packed_panel(const char* at);

/// sums (+)= steps [first, first + count) of a panel of A times those of a packed panel of B. `continued`: they are
/// added to. B passes by the first-level cache, where A stays. Needs a TileConfiguration on this thread. `finisher`, or
/// null, does some rows of its work at each step, while the tiles multiply.
void multiply_block(const PanelOfA& a, const char* b, std::int64_t first, std::int64_t count, bool continued,
                    char* sums, Finisher* finisher);

/// Multiplies panels of A by panels of B on one thread, block after block along the result's rows, and finishes each
/// beside a later one.
class BlockMultiplier {
 public:
  /// Blocks of sums that row() needs for `panels` panels of B.
  static constexpr std::int64_t ring_blocks(std::int64_t panels) { return panels + Finisher::waiting_blocks + 1; }

  /// `ring`: memory of that many blocks.
  BlockMultiplier(const AmxMatmul& matmul, char* ring, std::int64_t blocks)
      : finisher_(matmul), ring_(ring), blocks_(blocks) {}

  /// Packed panels of B, one after another.
  struct PanelsOfB {
    const char* at;
    std::int64_t count, panel_bytes;
  };
  /// Where sums that go through memory between two calls are, and what remains to be done with them.
  struct Sums {
    char* kept = nullptr;     // of the first panel, the others' behind it; null: in the ring, for this call alone
    bool continued = false;   // kept sums are added to
    bool last = true;         // the result takes them
    bool accumulate = false;  // by adding
  };
  /// Blocks (m, n), (m, n + 1), ... of the result.
  void row(const PanelOfA& a, const PanelsOfB& b, std::int64_t steps, std::int64_t m, std::int64_t n, const Sums& sums);

  /// All results are in place after this.
  void complete();

 private:
  Finisher finisher_;
  char* ring_;
  std::int64_t blocks_, turn_ = 0;
};

}  // namespace babelring::cpu::BABELRING_KERNEL_SET
