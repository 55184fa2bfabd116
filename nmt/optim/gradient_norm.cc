#include "nmt/optim/gradient_norm.h"

namespace babelring {

static_assert(Shards::grain % SquaredNorm::block == 0, "a block of the norm lies in one shard");

GradientNorm::GradientNorm(const ParameterStore& store, Backend& backend)
    : store_(&store),
      squares_(backend.allocate(static_cast<std::size_t>(SquaredNorm::blocks(store.flat_size())) * size_of(DType::f32),
                                MemoryPurpose::gradients)) {}

Tensor GradientNorm::squares_tensor() const {
  return squares_.view(Shape{SquaredNorm::blocks(store_->flat_size())}, DType::f32);
}

ConstTensor GradientNorm::squares(Backend& backend) const {
  backend.run(SquaredNorm{.x = store_->gradients(), .sums = squares_tensor()});
  return squares_tensor();
}

std::vector<double> GradientNorm::squares_of_sum(Backend& backend, const std::vector<ConstTensor>& on_ranks,
                                                 const Shards& shard) const {
  for (const auto& [begin, end] : shard.within({0, store_->flat_size()})) {
    const std::int64_t count = end - begin;
    SumWithNorm op{.parts = {},
                   .sum = store_->gradients().row_slice(begin, count),
                   .norms = squares_tensor().row_slice(begin / SquaredNorm::block, SquaredNorm::blocks(count))};
    for (const ConstTensor& gradients : on_ranks) op.parts.push_back(gradients.row_slice(begin, count));
    backend.run(op);
  }
  std::vector<float> host(static_cast<std::size_t>(SquaredNorm::blocks(store_->flat_size())));
  backend.download(squares_tensor(), host.data());  // blocks outside the shard are never written and stay 0
  return {host.begin(), host.end()};
}

}  // namespace babelring
