#include "nmt/comm/communicator.h"

#include "nmt/comm/collective.h"

namespace babelring {

void Communicator::follow(std::unique_ptr<Collective> operation) {
  fail("follow: {} cannot be watched by this communicator: {}", operation->name(), description());
}

Buffer Communicator::allocate_common(std::size_t bytes) {
  fail("allocate_common: {} bytes asked of ranks that share no memory: {}", bytes, description());
}

std::vector<ConstTensor> Communicator::on_all_ranks(Tensor tensor) const {
  fail("on_all_ranks: {} asked of ranks that share no memory: {}", tensor.shape.text(), description());
}

}  // namespace babelring
