#pragma once

#include "nmt/core/packed_batch.h"
#include "nmt/layers/context.h"

namespace babelring {

/// `count` rounded up to a multiple of 1/64 of the next power of two (padded_rows) or 1/16 (padded_sentences). So there
/// are 32 or 8 distinct sizes between two powers of two.
std::int64_t padded_rows(std::int64_t count);
std::int64_t padded_sentences(std::int64_t count);

/// Appends padding tokens and sentences, so that batches of similar size get equal shapes and a device can replay a
/// recorded pass (CUDA graph). Padding sentences have at most 32 tokens of id 0. Their targets are
/// CrossEntropy::no_target, and they have no links, so losses and gradients do not change. Returns a batch without
/// target tokens unchanged.
PackedBatch padded_batch(const PackedBatch& batch);

/// Copies ids and positions to the device, into `arena`. The result refers to the host offsets in `sequences`, which
/// must outlive it.
Sequences upload_sequences(Backend& backend, Arena& arena, const PackedSequences& sequences, std::int64_t first_row);

/// Copies integers to the device as [n] i32, into `arena`.
Tensor upload_ids(Backend& backend, Arena& arena, const std::vector<std::int32_t>& ids);

/// A PackedBatch on the device. Refers to host offsets in the PackedBatch, which must outlive it. The constructor
/// throws Failure if source and target differ in sentences, or target inputs and outputs in tokens.
struct DeviceBatch {
  Sequences source, target;
  ConstTensor target_out;           // [target tokens] i32
  ConstTensor link_offsets, links;  // of PackedLinks, i32 in host memory; null without alignments

  DeviceBatch(Backend& backend, Arena& arena, const PackedBatch& batch);
};

}  // namespace babelring
