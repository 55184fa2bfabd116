#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <utility>
#include <vector>

#include "base/failure.h"
#include "nmt/core/buffer.h"
#include "nmt/core/parameters.h"
#include "nmt/core/random.h"
#include "nmt/ops/backend.h"

namespace babelring {

/// A cache of weights, or row ranges of weights, in the layout that a backend's matmuls read (Backend::pack). Packs on
/// first use. For inference: the weights must not move or change during the cache's lifetime. Not thread-safe.
class PackedWeights {
 public:
  /// Whether weights stay beside their packed forms. `released`: their memory goes back to the system, so that both
  /// forms need little more than one; the model is then of no use to anybody else.
  enum class Originals { kept, released };

  /// `backend` must outlive the cache.
  explicit PackedWeights(Backend& backend, Originals originals = Originals::kept)
      : backend_(backend), originals_(originals) {}

  /// The packed form of `weight`, owned by the cache. Null if the backend does not pack. `is_table`: rows are read as
  /// embeddings, too, so the original is always kept.
  const PackedWeight* of(ConstTensor weight, bool is_table) {
    const auto [place, added] = packed_.try_emplace({weight.data, weight.rows()});
    if (!added) return place->second.get();
    if (overlaps_released(weight)) fail("packed weights: a weight that has been released is read in another form");
    place->second = backend_.pack(weight);
    if (originals_ == Originals::released && !is_table && place->second != nullptr && backend_.host_memory()) {
      release_pages(const_cast<void*>(weight.data), weight.bytes());
      released_.push_back(weight);
    }
    return place->second.get();
  }

  std::size_t bytes() const {
    std::size_t total = 0;
    for (const auto& [weight, packed] : packed_) total += packed == nullptr ? 0 : packed->elements.bytes();
    return total;
  }

 private:
  bool overlaps_released(ConstTensor weight) const {
    const auto begin = [](ConstTensor tensor) { return tensor.as<std::byte>(); };
    return std::any_of(released_.begin(), released_.end(), [&](ConstTensor released) {
      return begin(weight) < begin(released) + released.bytes() && begin(released) < begin(weight) + weight.bytes();
    });
  }

  Backend& backend_;
  Originals originals_;
  std::vector<ConstTensor> released_;
  std::map<std::pair<const void*, std::int64_t>, std::unique_ptr<const PackedWeight>> packed_;  // key: address, rows
};

enum class Phase { forward, backward };

/// Measures the time of each phase.
class PhaseClock {
 public:
  virtual ~PhaseClock() = default;
  virtual void enter(Phase phase) = 0;
};

/// A compact gradient for the embedding rows that a batch uses. Embedding gradients are added to it instead of to the
/// shared table's gradient, which then contains the output projection's part only. Each row belongs to one id.
struct EmbeddingRows {
  Tensor gradient;             // [rows, width] f32
  ConstTensor source, target;  // [tokens] i32: row of each token
};

/// The resources and settings of one step, passed to every layer call. Layers never store it.
struct Context {
  Backend& backend;
  Arena& saved;                    // valid until the micro-batch's backward has ended
  Arena& scratch;                  // temporary; each layer rewinds it before it returns
  DType dtype = DType::f32;        // data type of activations
  bool training = false;           // false: no dropout
  bool accumulate = true;          // false: backward overwrites gradients (first micro-batch of an update)
  std::uint64_t dropout_seed = 0;  // differs for each update
  float layer_drop = 0;            // probability with which a layer of the encoder or the decoder is left out
  PhaseClock* clock = nullptr;
  PackedWeights* packed_weights = nullptr;        // prepacked weights for forward matmuls; inference only
  const EmbeddingRows* embedding_rows = nullptr;  // only if embeddings and output projection have one table
  /// Called by forward before it reads a parameter. May be empty.
  std::function<void(const Parameter&)> before_read;
  /// Called by forward with the input of each matmul, [rows, in], and its weight. May be empty.
  std::function<void(const Parameter& weight, ConstTensor x)> matmul_input;
  /// Called by backward when a parameter's gradient is complete for this micro-batch. May be empty.
  std::function<void(const Parameter&)> gradient_ready;

  /// `site`: unique number of the dropout layer within the model.
  DropoutKey dropout_key(std::uint64_t site, std::int64_t first_row, float probability) const {
    return {derive_seed(dropout_seed, site), first_row, training ? probability : 0.0f};
  }
  /// Whether the layer is left out, a pure function of dropout_seed and `site`, its first dropout site. Source: Fan et
  /// al. 2020, "Reducing Transformer Depth on Demand with Structured Dropout".
  bool drops_layer(std::uint64_t site) const {
    if (layer_drop == 0) return false;
    return static_cast<float>(derive_seed(dropout_seed, site, 1) >> 40) * 0x1.0p-24f < layer_drop;
  }
  void will_read(const Parameter* parameter) const {
    if (parameter != nullptr && before_read) before_read(*parameter);
  }
  void will_multiply(const Parameter& weight, ConstTensor x) const {
    if (matmul_input) matmul_input(weight, x);
  }
  void ready(const Parameter* parameter) const {
    if (parameter != nullptr && gradient_ready) gradient_ready(*parameter);
  }
  const PackedWeight* packed(ConstTensor weight, bool is_table = false) const {
    return packed_weights == nullptr ? nullptr : packed_weights->of(weight, is_table);
  }
  void enter(Phase phase) const {
    if (clock != nullptr) clock->enter(phase);
  }
};

/// Packed sentences in the backend's memory, except for the offsets.
struct Sequences {
  ConstTensor ids;             // [tokens] i32
  ConstTensor positions;       // [tokens] i32, starting at 0 in each sentence
  ConstTensor offsets;         // [sentences + 1] i32, in host memory
  std::int64_t first_row = 0;  // index of the first token within the update, for dropout

  std::int64_t tokens() const { return ids.shape.elements(); }
};

/// Sizes of a ActivationArenas's two arenas in bytes.
struct ArenaBytes {
  std::size_t saved = 0, scratch = 0;

  /// The maximum of each size.
  static ArenaBytes larger(const ArenaBytes& a, const ArenaBytes& b) {
    return {.saved = std::max(a.saved, b.saved), .scratch = std::max(a.scratch, b.scratch)};
  }
};

/// Owns the two arenas of all passes over micro-batches, and makes their contexts. Not thread-safe.
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
