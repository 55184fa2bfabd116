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

std::vector<bool> EmbeddingRowsReducer::used_by_any_rank(const PackedBatch& batch) const {
  const auto vocabulary = static_cast<std::size_t>(table_.shape[0]);
  std::string bits((vocabulary + 7) / 8, '\0');
  for_each_id(batch, [&](std::size_t id) {
    if (id >= vocabulary) fail("embedding rows: the batch contains id {}, the table has {} rows", id, vocabulary);
    bits[id / 8] = static_cast<char>(bits[id / 8] | 1 << id % 8);
  });
  std::vector<bool> used(vocabulary);
  for (const std::string& theirs : communicator_.all_gather(bits)) {
    for (std::size_t id = 0; id < vocabulary; ++id) {
      if ((theirs[id / 8] >> id % 8 & 1) != 0) used[id] = true;
    }
  }
  return used;
}

const EmbeddingRows* EmbeddingRowsReducer::begin(const PackedBatch& batch) {
  const std::vector<bool> used = used_by_any_rank(batch);
  const std::int64_t rows = std::count(used.begin(), used.end(), true);
  if (rows > max_rows_) return nullptr;
  std::vector<std::int32_t> ids, row_of_id(used.size());
  for (std::size_t id = 0; id < used.size(); ++id) {
    row_of_id[id] = static_cast<std::int32_t>(ids.size());
    if (used[id]) ids.push_back(static_cast<std::int32_t>(id));
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
