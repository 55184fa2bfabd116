#include "nmt/parallel/gradient_reducer.h"

#include <optional>
#include <vector>

#include "nmt/optim/gradient_norm.h"
#include "nmt/parallel/buckets.h"
#include "nmt/parallel/embedding_rows_reducer.h"

namespace babelring {

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
