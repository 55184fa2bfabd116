#pragma once

#include <cstddef>
#include <functional>
#include <utility>
#include <vector>

#include "nmt/core/buffer.h"

namespace babelring {

/// Bump allocator for tensors that are freed together. It grows by blocks and keeps them, so nothing is allocated after
/// the first updates. `saved` arenas live for a micro-batch; `scratch` arenas rewind when a layer returns. Memory is
/// not cleared between uses. Not thread-safe.
class Arena {
  struct Mark {
    std::size_t block = 0, offset = 0, used = 0;
  };

 public:
  using Allocate = std::function<Buffer(std::size_t bytes)>;
  /// `allocate` provides the blocks, each at least `block_bytes`. `pads_rows`: whether make_rows() pads.
  explicit Arena(Allocate allocate, bool pads_rows = true, std::size_t block_bytes = std::size_t{16} << 20)
      : allocate_(std::move(allocate)), pads_rows_(pads_rows), block_bytes_(block_bytes) {}

  /// A contiguous tensor, 256-byte aligned, content undefined. Valid until reset() or the end of the enclosing Scope.
  Tensor make(Shape shape, DType type);
  /// Like make(), for a [rows, columns] tensor whose kernels read along columns. In an arena that pads, rows whose size
  /// is a multiple of 4 KiB get one cache line of padding, so that the elements of a column do not map to the same
  /// CPU cache sets. The returned view is then strided.
  Tensor make_rows(std::int64_t rows, std::int64_t columns, DType type);

  /// Allocates a first block of at least `bytes`. Does nothing if the arena already has a block.
  void reserve(std::size_t bytes);

  /// Frees all tensors and invalidates their views. Keeps the blocks.
  void reset() { rewind({}); }
  /// Like reset(), and replaces multiple blocks by a single block of peak_bytes(). Without this, varying sizes would
  /// accumulate blocks that are slightly too small.
  void reset_to_one_block();

  /// Whether the byte at this address belongs to the part of a block that is in use.
  bool holds(const void* address) const;
  std::size_t used_bytes() const { return used_; }
  std::size_t peak_bytes() const { return peak_; }

  /// On destruction, frees all tensors made during the scope.
  class Scope {
   public:
    explicit Scope(Arena& arena) : arena_(arena), mark_(arena.mark()) {}
    ~Scope() { arena_.rewind(mark_); }
    Scope(const Scope&) = delete;
    Scope& operator=(const Scope&) = delete;

   private:
    Arena& arena_;
    Mark mark_;
  };

 private:
  friend class Scope;
  Mark mark() const { return {block_, offset_, used_}; }
  void rewind(Mark mark);
  Allocate allocate_;
  bool pads_rows_;
  std::size_t block_bytes_;
  std::vector<Buffer> blocks_;
  std::size_t block_ = 0, offset_ = 0, used_ = 0, peak_ = 0;
};

}  // namespace babelring
