#pragma once

#include <algorithm>

#include "nmt/layers/context.h"

namespace babelring {

/// Sizes of a ActivationArenas's two arenas in bytes.
struct ArenaBytes {
  std::size_t saved = 0, scratch = 0;

  /// The maximum of each size.
  static ArenaBytes larger(const ArenaBytes& a, const ArenaBytes& b) {
    return {.saved = std::max(a.saved, b.saved), .scratch = std::max(a.scratch, b.scratch)};
  }
};

/// Owns the two arenas that all passes over micro-batches share, and makes their contexts. Not thread-safe.
class ActivationArenas {
 public:
  explicit ActivationArenas(Backend& backend)
      : backend_(backend),
        saved_(allocator(MemoryPurpose::activations), backend.pads_rows()),
        scratch_(allocator(MemoryPurpose::scratch), backend.pads_rows()) {}

  /// A context for one micro-batch. Frees all tensors of earlier micro-batches.
  Context begin(DType dtype) {
    for (Arena* arena : {&saved_, &scratch_}) {
      // CUDA graphs hold addresses in the blocks, so a device's blocks stay. reserve() has made one large enough.
      if (backend_.host_memory()) {
        arena->reset_to_one_block();
      } else {
        arena->reset();
      }
    }
    return {.backend = backend_, .saved = saved_, .scratch = scratch_, .dtype = dtype};
  }
  /// Allocates one block of `bytes` per arena, so that passes up to that size need no further allocation. Call before
  /// the first begin().
  void reserve(const ArenaBytes& bytes) {
    saved_.reserve(bytes.saved);
    scratch_.reserve(bytes.scratch);
  }
  const Arena& saved() const { return saved_; }
  const Arena& scratch() const { return scratch_; }

 private:
  Arena::Allocate allocator(MemoryPurpose purpose) {
    return [this, purpose](std::size_t bytes) { return backend_.allocate(bytes, purpose); };
  }

  Backend& backend_;
  Arena saved_, scratch_;
};

}  // namespace babelring
