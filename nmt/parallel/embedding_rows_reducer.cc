#include "nmt/parallel/embedding_rows_reducer.h"

#include <algorithm>
#include <bit>
#include <string>

#include "base/failure.h"

namespace babelring {

namespace {

/// Calls visit(id) for every source id and then every target id of the batch.
template <class Visit>
void for_each_id(const PackedBatch& batch, Visit visit) {
  for (const PackedSequences* side : {&batch.source, &batch.target_in}) {
    for (const std::int32_t id : side->ids) visit(static_cast<std::size_t>(id));
  }
}

std::vector<std::int32_t> rows_of(const std::vector<std::int32_t>& ids, const std::vector<std::int32_t>& row_of_id) {
  std::vector<std::int32_t> rows;
  rows.reserve(ids.size());
  for (const std::int32_t id : ids) rows.push_back(row_of_id[static_cast<std::size_t>(id)]);
  return rows;
}

}  // namespace

EmbeddingRowsReducer::EmbeddingRowsReducer(Backend& backend, Communicator& communicator, const Parameter& table)
    : backend_(backend), communicator_(communicator), table_(table), max_rows_(table.shape[0] * 3 / 4) {
  const auto bytes = static_cast<std::size_t>(max_rows_ * table.shape[1]) * sizeof(float);
  gradient_ = backend_.enter(MemoryPurpose::gradients, communicator_.allocate(bytes));
}

/// A bit for each row of the table.
std::vector<std::uint64_t> EmbeddingRowsReducer::used_by_any_rank(const PackedBatch& batch) const {
  const auto vocabulary = static_cast<std::size_t>(table_.shape[0]);
  std::vector<std::uint64_t> used((vocabulary + 63) / 64);
  for_each_id(batch, [&](std::size_t id) {
    if (id >= vocabulary) fail("embedding rows: the batch contains id {}, the table has {} rows", id, vocabulary);
    used[id / 64] |= std::uint64_t{1} << id % 64;
  });
  communicator_.or_bits(used);
  return used;
}

const EmbeddingRows* EmbeddingRowsReducer::begin(const PackedBatch& batch) {
  const std::vector<std::uint64_t> used = used_by_any_rank(batch);
  std::int64_t rows = 0;
  for (const std::uint64_t word : used) rows += std::popcount(word);
  if (rows > max_rows_) return nullptr;
  std::vector<std::int32_t> ids, row_of_id(static_cast<std::size_t>(table_.shape[0]));
  ids.reserve(static_cast<std::size_t>(rows));
  for (std::size_t word = 0; word < used.size(); ++word) {
    for (std::uint64_t left = used[word]; left != 0; left &= left - 1) {
      const std::size_t id = 64 * word + static_cast<std::size_t>(std::countr_zero(left));
      row_of_id[id] = static_cast<std::int32_t>(ids.size());
      ids.push_back(static_cast<std::int32_t>(id));
    }
  }
  upload(ids, rows_of(batch.source.ids, row_of_id), rows_of(batch.target_in.ids, row_of_id));
  rows_.gradient = gradient_.view(Shape{rows, table_.shape[1]}, DType::f32);
  backend_.run(Fill{.y = rows_.gradient, .value = 0});
  return &rows_;
}

void EmbeddingRowsReducer::upload(const std::vector<std::int32_t>& ids, const std::vector<std::int32_t>& source,
                                  const std::vector<std::int32_t>& target) {
  // Each list is 256-byte aligned, like an arena's tensors.
  const auto padded = [](std::size_t elements) { return (elements * sizeof(std::int32_t) + 255) / 256 * 256; };
  const std::size_t bytes = padded(ids.size()) + padded(source.size()) + padded(target.size());
  if (lists_.bytes() < bytes) lists_ = backend_.allocate(std::bit_ceil(bytes), MemoryPurpose::data);
  std::size_t offset = 0;
  const auto add = [&](const std::vector<std::int32_t>& list) {
    const Tensor tensor = lists_.view(Shape{std::ssize(list)}, DType::i32, offset);
    if (!list.empty()) backend_.upload(list.data(), tensor);
    offset += padded(list.size());
    return tensor;
  };
  ids_ = add(ids);
  rows_.source = add(source);
  rows_.target = add(target);
}

void EmbeddingRowsReducer::start() {
  communicator_.all_reduce_start(Tensor(gradient_.data(), {rows_.gradient.shape.elements()}, DType::f32));
}

void EmbeddingRowsReducer::add() {
  backend_.run(EmbeddingBackward{.ids = ids_, .dy = rows_.gradient, .dtable = table_.gradient});
}

}  // namespace babelring
