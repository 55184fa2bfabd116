#include "nmt/parallel/parameter_sharding.h"

#include <vector>

namespace babelring {

ParameterSharding::ParameterSharding(Backend& backend, Communicator& communicator)
    : backend_(backend),
      communicator_(communicator),
      shared_copy_(backend.host_memory() && communicator.shared_arrays() != nullptr && communicator.local_size() > 1) {}

Buffer ParameterSharding::allocate(std::size_t bytes, MemoryPurpose purpose) const {
  if (!shared_copy_) return backend_.allocate(bytes, purpose);
  return backend_.enter(purpose, communicator_.shared_arrays()->allocate_common(bytes));
}

ParameterMemory ParameterSharding::parameter_memory() const {
  return {.weights = [this](std::size_t bytes) { return allocate(bytes, MemoryPurpose::weights); },
          .gradients =
              [this](std::size_t bytes) {
                constexpr auto purpose = MemoryPurpose::gradients;
                return communicator_reduces() ? backend_.enter(purpose, communicator_.allocate(bytes))
                                              : backend_.allocate(bytes, purpose);
              }};
}

Shards ParameterSharding::local_shard(std::int64_t count) const {
  return shared_copy_ ? Shards(count, communicator_.local_rank(), communicator_.local_size()) : Shards();
}

std::unique_ptr<GradientReducer> ParameterSharding::make_reducer(const ParameterStore& store, std::int64_t bucket_bytes,
                                                                 const Parameter* shared_table, AddOrder order) const {
  if (single_copy()) return make_sharded_reducer(backend_, communicator_, store, local_shard(store.flat_size()), order);
  if (!communicator_reduces()) return make_staged_reducer(backend_, communicator_, store, bucket_bytes);
  // A sum in two parts rounds differently. Host all-reduces keep a single part so that their results do not change.
  return make_bucketed_reducer(backend_, communicator_, store, bucket_bytes,
                               communicator_.device_memory() ? shared_table : nullptr);
}

bool ParameterSharding::single_copy() const {
  return shared_copy_ && communicator_.local_size() == communicator_.size();
}

bool ParameterSharding::communicator_reduces() const {
  return backend_.host_memory() != communicator_.device_memory();
}

void ParameterSharding::write(const std::function<void()>& write) const {
  if (!shared_copy_ || communicator_.local_rank() == 0) write();
  release_writes();
}

void ParameterSharding::release_writes() const {
  if (shared_copy_) communicator_.barrier();
}

void ParameterSharding::broadcast(Tensor tensor) const {
  if (single_copy()) return;
  const bool first_of_copy = !shared_copy_ || communicator_.local_rank() == 0;
  std::vector<char> host(first_of_copy ? tensor.bytes() : 0);
  if (communicator_.rank() == 0) backend_.download(tensor, host.data());
  if (shared_copy_) {
    communicator_.broadcast_to_hosts(host.data(), tensor.bytes());
  } else {
    communicator_.broadcast(host.data(), tensor.bytes(), 0);
  }
  if (communicator_.rank() != 0 && first_of_copy) backend_.upload(host.data(), tensor);
}

}  // namespace babelring
