#include "nmt/parallel/gradient_reducer.h"

#include <algorithm>
#include <bit>
#include <optional>
#include <string>
#include <vector>

#include "base/failure.h"
#include "nmt/ops/elementwise.h"
#include "nmt/ops/embedding.h"
#include "nmt/optim/adam.h"
#include "nmt/parallel/buckets.h"

namespace babelring {
namespace {

/// Buckets are the rounds of the shards, from the end of the flat gradient to its begin.
class ScatteringReducer final : public GradientReducer {
 public:
  ScatteringReducer(Backend& backend, Communicator& communicator, const ParameterStore& store, const HostShards& shards)
      : backend_(backend),
        communicator_(communicator),
        store_(store),
        shards_(shards),
        square_blocks_(shards.parts_of({{0, store.flat_size()}})) {
    // A stripe is a whole number of blocks.
    for (auto& ranges : square_blocks_) {
      for (ElementRange& range : ranges) range = {range.begin / SquaredNorm::block, SquaredNorm::blocks(range.end)};
    }
    const std::int64_t bytes = SquaredNorm::blocks(store.flat_size()) * std::int64_t{sizeof(float)};
    all_squares_ = shards.exchange().allocate_for_gathers(static_cast<std::size_t>(bytes), {});
  }

  const EmbeddingRows* begin(const PackedBatch*) override {
    missing_.assign(static_cast<std::size_t>((store_.flat_size() + shards_.round() - 1) / shards_.round()), 0);
    for (const Parameter& parameter : store_.all()) add_to_rounds(parameter, 1);
    waiting_ = missing_.size();
    return nullptr;
  }
  void ready(const Parameter& parameter) override {
    add_to_rounds(parameter, -1);
    start_complete_rounds();
  }
  void finish() override {
    if (waiting_ > 0) fail("gradients: {} of {} buckets are not complete", waiting_, missing_.size());
    communicator_.all_reduce_finish();
  }
  ConstTensor squares() override {
    const Tensor all = all_squares_.view({SquaredNorm::blocks(store_.flat_size())}, DType::f32);
    for (const auto& [begin, end] : shards_.own().within({0, store_.flat_size()})) {
      const std::int64_t count = end - begin;
      backend_.run(SquaredNorm{.x = store_.gradients().row_slice(begin, count),
                               .sums = all.row_slice(begin / SquaredNorm::block, SquaredNorm::blocks(count))});
    }
    shards_.gather(all, square_blocks_);
    return all;
  }

 private:
  void add_to_rounds(const Parameter& parameter, int count) {
    const std::int64_t end = parameter.offset + store_.padded_size(parameter);
    for (std::int64_t round = parameter.offset / shards_.round(); round * shards_.round() < end; ++round) {
      missing_[static_cast<std::size_t>(round)] += count;
    }
  }
  void start_complete_rounds() {
    for (; waiting_ > 0 && missing_[waiting_ - 1] == 0; --waiting_) {
      const std::int64_t begin = static_cast<std::int64_t>(waiting_ - 1) * shards_.round();
      const std::int64_t count = std::min(shards_.round(), store_.flat_size() - begin);
      shards_.exchange().reduce_scatter_start(store_.gradients().row_slice(begin, count), shards_.stripe());
    }
  }

  Backend& backend_;
  Communicator& communicator_;
  const ParameterStore& store_;
  HostShards shards_;
  PartsByPosition square_blocks_;
  Buffer all_squares_;        // of all blocks, one copy on each host or GPU
  std::vector<int> missing_;  // by round: parameters whose gradients are not complete
  std::size_t waiting_ = 0;   // rounds that have not started: the first ones
};

}  // namespace

std::unique_ptr<GradientReducer> make_scattering_reducer(Backend& backend, Communicator& communicator,
                                                         const ParameterStore& store, const HostShards& shards) {
  return std::make_unique<ScatteringReducer>(backend, communicator, store, shards);
}

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

namespace {

std::vector<ParameterRange> ranges_of(const ParameterStore& store) {
  std::vector<ParameterRange> ranges;
  for (const Parameter& parameter : store.all()) {
    ranges.push_back({.offset = parameter.offset, .count = store.padded_size(parameter)});
  }
  return ranges;
}

class BucketedReducer final : public GradientReducer {
 public:
  BucketedReducer(Backend& backend, Communicator& communicator, const ParameterStore& store, std::int64_t bucket_bytes,
                  const Parameter* shared_table)
      : backend_(backend),
        buckets_(communicator, store.gradients(), ranges_of(store), bucket_bytes, index_of(shared_table)),
        norm_(store, backend) {
    if (shared_table != nullptr) rows_.emplace(backend, communicator, *shared_table);
  }

  const EmbeddingRows* begin(const PackedBatch* last) override {
    separate_ = rows_ && last != nullptr ? rows_->begin(*last) : nullptr;
    buckets_.begin(separate_ != nullptr);
    return separate_;
  }
  void ready(const Parameter& parameter) override { buckets_.mark_ready(parameter.index); }
  void finish() override {
    if (separate_ != nullptr) rows_->start();
    buckets_.finish();
    if (separate_ != nullptr) rows_->add();
  }
  ConstTensor squares() override { return norm_.squares(backend_); }

 private:
  static std::optional<std::size_t> index_of(const Parameter* parameter) {
    return parameter == nullptr ? std::nullopt : std::optional(parameter->index);
  }

  Backend& backend_;
  GradientBuckets buckets_;
  std::optional<EmbeddingRowsReducer> rows_;
  const EmbeddingRows* separate_ = nullptr;  // this update's compact rows; null: the table is reduced as a whole
  GradientNorm norm_;
};

class HostStagedReducer final : public GradientReducer {
 public:
  HostStagedReducer(Backend& backend, Communicator& communicator, const ParameterStore& store,
                    std::int64_t bucket_bytes)
      : backend_(backend), store_(store), norm_(store, backend) {
    if (communicator.size() == 1) return;
    staging_ = communicator.allocate(store.gradients().bytes());
    buckets_.emplace(communicator, staged(), ranges_of(store), bucket_bytes);
  }

  const EmbeddingRows* begin(const PackedBatch*) override {
    if (buckets_) buckets_->begin();
    return nullptr;
  }
  void ready(const Parameter&) override {}
  void finish() override {
    if (!buckets_) return;
    backend_.download(store_.gradients(), staging_.data());
    for (std::size_t parameter = store_.all().size(); parameter-- > 0;) buckets_->mark_ready(parameter);
    buckets_->finish();
    backend_.upload(staging_.data(), store_.gradients());
  }
  ConstTensor squares() override { return norm_.squares(backend_); }

 private:
  Tensor staged() const { return staging_.view(store_.gradients().shape, DType::f32); }

  Backend& backend_;
  const ParameterStore& store_;
  Buffer staging_;
  std::optional<GradientBuckets> buckets_;
  GradientNorm norm_;
};

class ShardedReducer final : public GradientReducer {
 public:
  ShardedReducer(Backend& backend, Communicator& communicator, const ParameterStore& store, const Shards& shard,
                 AddOrder order)
      : backend_(backend),
        communicator_(communicator),
        gradients_(store.gradients()),
        on_ranks_(communicator.shared_arrays()->on_local_ranks(store.gradients())),
        shard_(shard),
        in_tree_(order == AddOrder::tree && on_ranks_.size() > 2),  // of two there is one order
        norm_(store, backend) {}

  const EmbeddingRows* begin(const PackedBatch*) override { return nullptr; }
  void ready(const Parameter&) override {}
  void finish() override { communicator_.barrier(); }
  ConstTensor squares() override {
    if (in_tree_) sum_in_tree();
    std::vector<double> squares =
        norm_.squares_of_sum(backend_, in_tree_ ? std::vector<ConstTensor>{gradients_} : on_ranks_, shard_);
    communicator_.sum(squares);  // of one rank's f32 and zeros: exact
    squares_.assign(squares.begin(), squares.end());
    return {squares_.data(), Shape{std::ssize(squares_)}, DType::f32};
  }

 private:
  /// Sums this rank's shard into its own gradients. No other rank reads or writes the shard meanwhile.
  void sum_in_tree() {
    std::vector<float*> parts;
    for (const ConstTensor& part : on_ranks_) parts.push_back(const_cast<float*>(part.as<float>()));
    for (const auto& [begin, end] : shard_.within({0, gradients_.shape[0]})) {
      sum_into_one(parts, gradients_.as<float>(), begin, end - begin, AddOrder::tree);
    }
  }

  Backend& backend_;
  Communicator& communicator_;
  Tensor gradients_;
  std::vector<ConstTensor> on_ranks_;
  Shards shard_;
  bool in_tree_;
  GradientNorm norm_;
  std::vector<float> squares_;  // the backend reads the host's memory
};

}  // namespace

std::unique_ptr<GradientReducer> make_bucketed_reducer(Backend& backend, Communicator& communicator,
                                                       const ParameterStore& store, std::int64_t bucket_bytes,
                                                       const Parameter* shared_table) {
  return std::make_unique<BucketedReducer>(backend, communicator, store, bucket_bytes, shared_table);
}

std::unique_ptr<GradientReducer> make_staged_reducer(Backend& backend, Communicator& communicator,
                                                     const ParameterStore& store, std::int64_t bucket_bytes) {
  return std::make_unique<HostStagedReducer>(backend, communicator, store, bucket_bytes);
}

std::unique_ptr<GradientReducer> make_sharded_reducer(Backend& backend, Communicator& communicator,
                                                      const ParameterStore& store, const Shards& shard,
                                                      AddOrder order) {
  return std::make_unique<ShardedReducer>(backend, communicator, store, shard, order);
}

}  // namespace babelring
