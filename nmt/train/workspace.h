#pragma once

#include "nmt/layers/context.h"

namespace babelring {

/// The two arenas that passes over micro-batches share, and the contexts made of them.
class Workspace {
 public:
  explicit Workspace(Backend& backend)
      : backend_(backend),
        saved_([&backend](std::size_t bytes) { return backend.allocate(bytes); }),
        scratch_([&backend](std::size_t bytes) { return backend.allocate(bytes); }) {}

  /// A context for one micro-batch; what earlier ones kept is given back.
  Context begin(DType dtype) {
    saved_.reset();
    scratch_.reset();
    return {.backend = backend_, .saved = saved_, .scratch = scratch_, .dtype = dtype};
  }
  const Arena& saved() const { return saved_; }
  const Arena& scratch() const { return scratch_; }

 private:
  Backend& backend_;
  Arena saved_, scratch_;
};

}  // namespace babelring
