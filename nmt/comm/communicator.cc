#include "nmt/comm/communicator.h"

#include "nmt/comm/collective.h"

namespace babelring {

void Communicator::follow(std::unique_ptr<Collective> operation) {
  fail("follow: this communicator cannot track {}: {}", operation->name(), description());
}

Buffer Communicator::allocate_common(std::size_t bytes) {
  fail("allocate_common: {} bytes requested, but the ranks share no memory: {}", bytes, description());
}

std::vector<ConstTensor> Communicator::on_all_ranks(Tensor tensor) const {
  fail("on_all_ranks: {} requested, but the ranks share no memory: {}", tensor.shape.text(), description());
}

}  // namespace babelring
