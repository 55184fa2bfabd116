#include "nmt/model/device_batch.h"

#include <algorithm>
#include <bit>

#include "base/failure.h"
#include "nmt/ops/cross_entropy.h"

namespace babelring {
namespace {

constexpr std::int64_t max_padding_length = 32;  // tokens per padding sentence

/// Rounds up to a multiple of 1 / steps of the next power of two.
std::int64_t round_to_step(std::int64_t count, std::int64_t steps) {
  const auto power = static_cast<std::int64_t>(std::bit_ceil(static_cast<std::uint64_t>(std::max(count, steps))));
  const std::int64_t step = power / steps;
  return (count + step - 1) / step * step;
}

/// Appends `tokens` tokens of id 0, divided evenly into `sentences` sentences with longer ones first.
void pad_side(PackedSequences& side, std::int64_t tokens, std::int64_t sentences) {
  side.ids.resize(side.ids.size() + static_cast<std::size_t>(tokens), 0);
  for (; sentences > 0; --sentences) {
    const std::int64_t length = (tokens + sentences - 1) / sentences;
    side.offsets.push_back(side.offsets.back() + static_cast<std::int32_t>(length));
    tokens -= length;
  }
}

}  // namespace

std::int64_t padded_rows(std::int64_t count) {
  return round_to_step(count, 64);
}

std::int64_t padded_sentences(std::int64_t count) {
  return round_to_step(count, 16);
}

PackedBatch padded_batch(const PackedBatch& batch) {
  PackedBatch padded = batch;
  if (batch.target_out.empty()) return padded;
  const std::int64_t source = padded_rows(batch.source.tokens()) - batch.source.tokens();
  const std::int64_t target = padded_rows(batch.target_in.tokens()) - batch.target_in.tokens();
  const std::int64_t needed = (std::max(source, target) + max_padding_length - 1) / max_padding_length;
  const std::int64_t sentences = batch.source.sentences();
  const std::int64_t added = padded_sentences(sentences + needed) - sentences;
  pad_side(padded.source, source, added);
  pad_side(padded.target_in, target, added);
  padded.target_out.resize(padded.target_in.ids.size(), CrossEntropy::no_target);
  if (PackedLinks& links = padded.links; !links.offsets.empty()) {
    links.offsets.resize(padded.target_out.size() + 1, links.offsets.back());
    // So that the number follows from that of the target tokens: twice as many as one each are rare.
    const std::int64_t usual = 2 * padded.target_in.tokens();
    links.sources.resize(static_cast<std::size_t>(std::max(usual, padded_rows(std::ssize(links.sources)))), 0);
  }
  return padded;
}

Tensor upload_ids(Backend& backend, Arena& arena, const std::vector<std::int32_t>& ids) {
  Tensor tensor = arena.make(Shape{static_cast<std::int64_t>(ids.size())}, DType::i32);
  if (!ids.empty()) backend.upload(ids.data(), tensor);
  return tensor;
}

Sequences upload_sequences(Backend& backend, Arena& arena, const PackedSequences& sequences, std::int64_t first_row) {
  std::vector<std::int32_t> positions;
  positions.reserve(sequences.ids.size());
  for (std::size_t sentence = 0; sentence + 1 < sequences.offsets.size(); ++sentence) {
    const std::int32_t length = sequences.offsets[sentence + 1] - sequences.offsets[sentence];
    for (std::int32_t position = 0; position < length; ++position) positions.push_back(position);
  }
  return {.ids = upload_ids(backend, arena, sequences.ids),
          .positions = upload_ids(backend, arena, positions),
          .offsets = ConstTensor(sequences.offsets.data(), Shape{std::ssize(sequences.offsets)}, DType::i32),
          .first_row = first_row};
}

DeviceBatch::DeviceBatch(Backend& backend, Arena& arena, const PackedBatch& batch)
    : source(upload_sequences(backend, arena, batch.source, batch.first_source_row)),
      target(upload_sequences(backend, arena, batch.target_in, batch.first_target_row)),
      target_out(upload_ids(backend, arena, batch.target_out)) {
  if (batch.target_out.size() != batch.target_in.ids.size() ||
      batch.source.sentences() != batch.target_in.sentences()) {
    fail("batch: {} target outputs for {} inputs, {} source for {} target sentences; each pair must be equal",
         batch.target_out.size(), batch.target_in.ids.size(), batch.source.sentences(), batch.target_in.sentences());
  }
  if (batch.links.offsets.empty()) return;
  const auto list = [](const std::vector<std::int32_t>& values) {
    return ConstTensor(values.data(), Shape{std::ssize(values)}, DType::i32);
  };
  link_offsets = list(batch.links.offsets);
  links = list(batch.links.sources);
}

}  // namespace babelring
