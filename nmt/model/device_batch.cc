#include "nmt/model/device_batch.h"

#include "base/failure.h"

namespace babelring {

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
}

}  // namespace babelring
