#include "nmt/parallel/parameter_sharding.h"

#include <fmt/format.h>

#include <algorithm>
#include <bit>

#include "base/failure.h"
#include "nmt/core/buffer.h"
#include "nmt/parallel/buckets.h"

namespace babelring {

namespace {

constexpr std::int64_t f32_bytes = size_of(DType::f32);
constexpr std::int64_t block_elements = 4 << 20;  // of a moment that is broadcast

}  // namespace

ParameterSharding::ParameterSharding(Backend& backend, Communicator& communicator, const CommConfig& config,
                                     std::int64_t gradient_bytes)
    : backend_(backend),
      communicator_(communicator),
      shared_copy_(backend.host_memory() && communicator.shared_arrays() != nullptr && communicator.local_size() > 1) {
  choose_shards(config, gradient_bytes);
}

/// True if hosts can keep shards, and the bits of weights do not depend on whether they do.
bool ParameterSharding::sharding_changes_no_bit() const {
  const int hosts = communicator_.size() / communicator_.local_size();
  return hosts > 1 && std::has_single_bit(static_cast<unsigned>(hosts)) && backend_.host_memory() &&
         !communicator_.device_memory() && communicator_.host_exchange() != nullptr &&
         communicator_.same_bits_in_any_bucket();
}

void ParameterSharding::choose_shards(const CommConfig& config, std::int64_t gradient_bytes) {
  if (config.optimizer == OptimizerPlacement::replicated) return;
  if (config.optimizer == OptimizerPlacement::automatic && !sharding_changes_no_bit()) return;
  constexpr const char* key = "communication.optimizer sharded";
  const int ranks = communicator_.size();
  const bool on_gpus = !backend_.host_memory();
  if (ranks == 1 || (!on_gpus && communicator_.local_size() == ranks)) {
    line_ = fmt::format("{} has no effect on one {}", key, on_gpus ? "GPU" : "host");
    return;
  }
  if (on_gpus && !communicator_.device_memory()) {
    throw UsageFailure(fmt::format("{} needs NCCL between GPUs; use auto", key));
  }
  if (communicator_.host_exchange() == nullptr) {
    throw UsageFailure(
        fmt::format("{} needs hosts with equal numbers of ranks that share memory, and "
                    "communication.all_reduce auto, two_level or, with one rank on each host, ring; use auto",
                    key));
  }
  shards_.emplace(communicator_, config.bucket_bytes(gradient_bytes, communicator_, on_gpus));
  line_ = fmt::format("optimizer: each of {} {} keeps a shard of {} and gathers weights, buckets of {:.2f} MB",
                      shards_->hosts(), on_gpus ? "GPUs" : "hosts", on_gpus ? "the moments" : "the optimizer's state",
                      static_cast<double>(scattered_bytes()) * 1e-6);
}

std::int64_t ParameterSharding::scattered_bytes() const {
  return shards_->round() * f32_bytes;
}

Buffer ParameterSharding::allocate(std::size_t bytes, MemoryPurpose purpose) const {
  if (shares_host_memory()) {
    const auto begin = [&](int rank) { return static_cast<std::int64_t>(bytes) * rank / communicator_.local_size(); };
    const ElementRange part{begin(communicator_.local_rank()), begin(communicator_.local_rank() + 1)};
    return backend_.enter(purpose, shards_->exchange().allocate_for_gathers(bytes, {part}));
  }
  if (!shared_copy_) return backend_.allocate(bytes, purpose);
  return backend_.enter(purpose, communicator_.shared_arrays()->allocate_common(bytes));
}

/// Allocates a zeroed f32 array. If hosts keep shards, it takes memory for this host's shard only.
Buffer ParameterSharding::allocate_share(std::size_t bytes, MemoryPurpose purpose) const {
  if (!shares_host_memory()) return allocate(bytes, purpose);
  const std::int64_t count = static_cast<std::int64_t>(bytes) / f32_bytes;
  std::vector<ElementRange> own = own_shard(count).within({0, count});
  for (ElementRange& range : own) range = {range.begin * f32_bytes, range.end * f32_bytes};
  return backend_.enter(purpose, shards_->exchange().allocate_for_gathers(bytes, own),
                        bytes / static_cast<std::size_t>(shards_->hosts()));
}

Moment ParameterSharding::allocate_moment(std::int64_t size) const {
  constexpr auto purpose = MemoryPurpose::moments;
  const Shards kept = shards_ ? shards_->own() : Shards();
  const std::size_t bytes = Moment::bytes_of(size, kept);
  return Moment(shards_ ? backend_.allocate(bytes, purpose) : allocate(bytes, purpose), size, kept);
}

ParameterMemory ParameterSharding::parameter_memory() const {
  return {.weights = [this](std::size_t bytes) { return allocate(bytes, MemoryPurpose::weights); },
          .gradients =
              [this](std::size_t bytes) {
                constexpr auto purpose = MemoryPurpose::gradients;
                return communicator_reduces() ? backend_.enter(purpose, communicator_.allocate(bytes))
                                              : backend_.allocate(bytes, purpose);
              },
          .copied_masters = [this](std::size_t bytes) { return allocate_share(bytes, MemoryPurpose::weights); }};
}

Shards ParameterSharding::own_shard(std::int64_t count) const {
  if (shards_) return shards_->own();
  return shared_copy_ ? Shards(count, communicator_.local_rank(), communicator_.local_size()) : Shards();
}

std::unique_ptr<GradientReducer> ParameterSharding::make_reducer(const ParameterStore& store, std::int64_t bucket_bytes,
                                                                 const Parameter* shared_table, AddOrder order) const {
  const Shards shard = own_shard(store.flat_size());
  if (shards_) return make_scattering_reducer(backend_, communicator_, store, *shards_);
  if (single_copy()) return make_sharded_reducer(backend_, communicator_, store, shard, order);
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

/// Waits until every rank has written its shard.
void ParameterSharding::release_writes() const {
  if (shared_copy_) communicator_.barrier();
}

void ParameterSharding::publish() const {
  if (!shards_) release_writes();
}

std::unique_ptr<WeightsGather> ParameterSharding::make_weights_gather(const ParameterStore& store) const {
  return shards_ ? std::make_unique<WeightsGather>(*shards_, store) : nullptr;
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

/// In blocks, so that ranks need little memory beside the moment.
void ParameterSharding::write_moment(const Moment& moment, const std::vector<float>& values) const {
  const bool all_ranks_write = shards_ || !shared_copy_;
  const bool writes = all_ranks_write || communicator_.local_rank() == 0;
  std::vector<float> block;
  for (std::int64_t begin = 0; begin < moment.size(); begin += block_elements) {
    const std::int64_t end = std::min(moment.size(), begin + block_elements);
    const auto bytes = static_cast<std::size_t>((end - begin) * f32_bytes);
    block.resize(static_cast<std::size_t>(end - begin));
    if (communicator_.rank() == 0) std::copy_n(values.begin() + begin, end - begin, block.begin());
    if (all_ranks_write) {
      communicator_.broadcast(block.data(), bytes, 0);
    } else if (!single_copy()) {
      communicator_.broadcast_to_hosts(block.data(), bytes);
    }
    if (!writes) continue;
    for (const ElementRange& kept : moment.kept()) {
      const ElementRange part{.begin = std::max(begin, kept.begin), .end = std::min(end, kept.end)};
      if (part.begin < part.end) backend_.upload(block.data() + (part.begin - begin), moment.part(part));
    }
  }
  if (!all_ranks_write) release_writes();
}

/// The masters that WeightsGather does not gather.
std::vector<ElementRange> ParameterSharding::masters_on_demand(const ParameterStore& store) const {
  if (!store.compute_copies()) return {};
  // NCCL gathers a whole round as one part.
  return backend_.host_memory() ? store.ranges_read_as_f32(false) : std::vector<ElementRange>{{0, store.flat_size()}};
}

void ParameterSharding::read_masters(const ParameterStore& store, const std::function<void()>& read) const {
  if (!shards_) return read();
  shards_->gather(store.masters(), shards_->parts_of(masters_on_demand(store)));
  read();
  release_writes();  // other ranks of the host may still read what this one drops
  drop_other_masters(store);
}

/// Each rank drops the masters that only it receives; nobody writes them before this rank's next gather.
void ParameterSharding::drop_other_masters(const ParameterStore& store) const {
  if (!shares_host_memory()) return;
  const PartsByPosition parts = shards_->parts_of(masters_on_demand(store));
  for (int position = 0; position < shards_->hosts(); ++position) {
    if (position == shards_->exchange().position()) continue;
    for (const auto& [begin, end] : parts[static_cast<std::size_t>(position)]) {
      release_pages(store.masters().as<float>() + begin, static_cast<std::size_t>((end - begin) * f32_bytes));
    }
  }
}

}  // namespace babelring
