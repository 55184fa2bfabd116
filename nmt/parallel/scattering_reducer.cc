#include <algorithm>
#include <vector>

#include "base/failure.h"
#include "nmt/parallel/gradient_reducer.h"

namespace babelring {

namespace {

/// Buckets are the rounds of the shares, from the end of the flat gradient to its begin.
class ScatteringReducer final : public GradientReducer {
 public:
  ScatteringReducer(Backend& backend, Communicator& communicator, const ParameterStore& store, const HostShares& shares)
      : backend_(backend),
        communicator_(communicator),
        store_(store),
        shares_(shares),
        square_blocks_(shares.parts_of({{0, store.flat_size()}})) {
    // A stripe is a whole number of blocks.
    for (auto& ranges : square_blocks_) {
      for (ElementRange& range : ranges) range = {range.begin / SquaredNorm::block, SquaredNorm::blocks(range.end)};
    }
    const std::int64_t bytes = SquaredNorm::blocks(store.flat_size()) * std::int64_t{sizeof(float)};
    all_squares_ = shares.exchange().allocate_for_gathers(static_cast<std::size_t>(bytes), {});
  }

  const EmbeddingRows* begin(const PackedBatch*) override {
    missing_.assign(static_cast<std::size_t>((store_.flat_size() + shares_.round() - 1) / shares_.round()), 0);
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
    for (const auto& [begin, end] : shares_.own().within({0, store_.flat_size()})) {
      const std::int64_t count = end - begin;
      backend_.run(SquaredNorm{.x = store_.gradients().row_slice(begin, count),
                               .sums = all.row_slice(begin / SquaredNorm::block, SquaredNorm::blocks(count))});
    }
    shares_.gather(all, square_blocks_);
    return all;
  }

 private:
  void add_to_rounds(const Parameter& parameter, int count) {
    const std::int64_t end = parameter.offset + store_.padded_size(parameter);
    for (std::int64_t round = parameter.offset / shares_.round(); round * shares_.round() < end; ++round) {
      missing_[static_cast<std::size_t>(round)] += count;
    }
  }
  void start_complete_rounds() {
    for (; waiting_ > 0 && missing_[waiting_ - 1] == 0; --waiting_) {
      const std::int64_t begin = static_cast<std::int64_t>(waiting_ - 1) * shares_.round();
      const std::int64_t count = std::min(shares_.round(), store_.flat_size() - begin);
      shares_.exchange().reduce_scatter_start(store_.gradients().row_slice(begin, count), shares_.stripe());
    }
  }

  Backend& backend_;
  Communicator& communicator_;
  const ParameterStore& store_;
  HostShares shares_;
  PartsByPlace square_blocks_;
  Buffer all_squares_;        // of all blocks, one copy on each host or GPU
  std::vector<int> missing_;  // by round: parameters whose gradients are not complete
  std::size_t waiting_ = 0;   // rounds that have not started: the first ones
};

}  // namespace

std::unique_ptr<GradientReducer> make_scattering_reducer(Backend& backend, Communicator& communicator,
                                                         const ParameterStore& store, const HostShares& shares) {
  return std::make_unique<ScatteringReducer>(backend, communicator, store, shares);
}

}  // namespace babelring
