#include "nmt/model/padded_batch.h"

#include <algorithm>
#include <bit>

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
  return padded;
}

}  // namespace babelring
