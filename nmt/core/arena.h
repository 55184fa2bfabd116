#pragma once

#include <cstddef>
#include <functional>
#include <utility>
#include <vector>

#include "nmt/core/buffer.h"

namespace babelring {

/// Bump allocator of tensors that die together. Grows by blocks and keeps them: after the first updates nothing is
/// allocated. `saved` arenas live for a micro-batch, `scratch` arenas rewind when a layer returns. Not thread-safe.
/// Memory is not cleared between uses.
class Arena {
  struct Mark {
    std::size_t block = 0, offset = 0, used = 0;
  };

 public:
  using Allocate = std::function<Buffer(std::size_t bytes)>;
  /// `pads_rows`: whether make_rows() pads.
  explicit Arena(Allocate allocate, bool pads_rows = true, std::size_t block_bytes = std::size_t{16} << 20)
      : allocate_(std::move(allocate)), pads_rows_(pads_rows), block_bytes_(block_bytes) {}

  /// A contiguous tensor, 256-byte aligned, content undefined. Valid until reset() or the end of the enclosing Scope.
  Tensor make(Shape shape, DType type);
  /// The same, [rows, columns], for kernels that go down the columns: in an arena that pads, rows of a multiple of 4
  /// KiB are padded (the view is strided then), or the elements of a column would compete for a few sets of a
  /// processor's cache.
  Tensor make_rows(std::int64_t rows, std::int64_t columns, DType type);

  /// Allocates a first block of at least `bytes`. Does nothing if there is a block already.
  void reserve(std::size_t bytes);

  /// Gives everything back; views made before are dead. Blocks stay.
  void reset() { rewind({}); }
  /// As reset(), and replaces several blocks by a single one of peak_bytes(): where sizes vary, blocks that are
  /// slightly too small would pile up beside larger ones.
  void reset_to_one_block();

  std::size_t used_bytes() const { return used_; }
  std::size_t peak_bytes() const { return peak_; }

  /// Rewinds the arena to where it was when the scope began.
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
