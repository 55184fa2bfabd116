#pragma once

#include <algorithm>

#include "nmt/layers/context.h"

namespace babelring {

/// Bytes of the two arenas.
struct ArenaBytes {
  std::size_t saved = 0, scratch = 0;

  /// Enough for both.
  static ArenaBytes larger(const ArenaBytes& a, const ArenaBytes& b) {
    return {.saved = std::max(a.saved, b.saved), .scratch = std::max(a.scratch, b.scratch)};
  }
};

/// The two arenas that passes over micro-batches share, and the contexts made of them.
class Workspace {
 public:
  explicit Workspace(Backend& backend)
      : backend_(backend),
        saved_(allocator("activations, which data.micro_batch_tokens bounds (auto: by what is free)"),
               backend.pads_rows()),
        scratch_(allocator("scratch, which data.micro_batch_tokens bounds (auto: by what is free)"),
                 backend.pads_rows()) {}

  /// A context for one micro-batch; what earlier ones kept is given back.
  Context begin(DType dtype) {
    for (Arena* arena : {&saved_, &scratch_}) {
      // A device's graphs hold addresses in its blocks, so these stay; reserve() has made one that is large enough.
      if (backend_.host_memory()) {
        arena->reset_to_one_block();
      } else {
        arena->reset();
      }
    }
    return {.backend = backend_, .saved = saved_, .scratch = scratch_, .dtype = dtype};
  }
  /// Allocates so many bytes in one block each, before the first begin(), so that passes up to that size fit into them.
  void reserve(const ArenaBytes& bytes) {
    saved_.reserve(bytes.saved);
    scratch_.reserve(bytes.scratch);
  }
  const Arena& saved() const { return saved_; }
  const Arena& scratch() const { return scratch_; }

 private:
  Arena::Allocate allocator(const char* purpose) {
    return [this, purpose](std::size_t bytes) {
      const AllocationPurpose named(backend_, purpose);
      return backend_.allocate(bytes);
    };
  }

  Backend& backend_;
  Arena saved_, scratch_;
};

}  // namespace babelring
