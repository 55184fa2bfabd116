#pragma once

#include "nmt/core/packed_batch.h"
#include "nmt/layers/context.h"

namespace babelring {

/// Copies ids and positions to the device, into `arena`. The result refers to the host offsets in `sequences`, which
/// must outlive it.
Sequences upload_sequences(Backend& backend, Arena& arena, const PackedSequences& sequences, std::int64_t first_row);

/// Copies integers to the device as [n] i32, into `arena`.
Tensor upload_ids(Backend& backend, Arena& arena, const std::vector<std::int32_t>& ids);

/// A PackedBatch on the device. Refers to host offsets in the PackedBatch, which must outlive it. The constructor
/// throws Failure if source and target differ in sentences, or target inputs and outputs in tokens.
struct DeviceBatch {
  Sequences source, target;
  ConstTensor target_out;  // [target tokens] i32

  DeviceBatch(Backend& backend, Arena& arena, const PackedBatch& batch);
};

}  // namespace babelring
