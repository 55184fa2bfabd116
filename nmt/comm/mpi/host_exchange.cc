#include "nmt/comm/mpi/host_exchange.h"

#include <algorithm>

#include "nmt/comm/mpi/host_gather.h"
#include "nmt/comm/mpi/all_gather.h"
#include "nmt/comm/shared/shared_memory.h"
#include "nmt/comm/shared/two_level_all_reduce.h"

namespace babelring {

/// The elements that this rank sums over its host's ranks: one stripe for each host.
ElementRange MpiHostExchange::local_part(std::int64_t count, std::int64_t stripe) const {
  if (parts_.board == nullptr) return {.begin = 0, .end = count};
  const std::int64_t begin = parts_.board->rank() * host_count() * stripe;
  return {.begin = std::min(count, begin), .end = std::min(count, begin + host_count() * stripe)};
}

void MpiHostExchange::reduce_scatter_start(Tensor tensor, std::int64_t stripe) {
  const auto memory = parts_.summed.of_floats("reduce_scatter_start", tensor);
  const std::int64_t count = tensor.shape.elements(), ranks = host_count() * std::ssize(parts_.local_ranks);
  if (stripe < 1 || count > stripe * ranks) {
    fail("reduce_scatter_start: {} elements for {} ranks in stripes of {}", count, ranks, stripe);
  }
  if (count == 0) return;
  float* const data = tensor.as<float>();
  const bool keeps_errors = parts_.messages.wire == GradientWire::int8;
  float* const errors = keeps_errors ? memory->error_of(data) : nullptr;
  const ElementRange part = local_part(count, stripe);
  parts_.bytes_sent += parts_.messages.bytes_to_scatter(part.end - part.begin, stripe);
  const auto over_hosts = [messages = parts_.messages, data, errors, stripe](
                              MpiProgress::World& world, std::int64_t sequence, float* values, std::int64_t size) {
    float* const own_errors = errors == nullptr ? nullptr : errors + (values - data);
    return messages.scatter(world, sequence, values, own_errors, size, stripe);
  };
  if (parts_.board == nullptr) {
    parts_.progress.submit([=](MpiProgress::World& world, std::int64_t sequence) {
      auto sum = over_hosts(world, sequence, data, count);
      sum->keep(memory);
      return sum;
    });
    return;
  }
  const std::int64_t number = parts_.shared_all_reduces++;
  parts_.progress.submit([=, board = parts_.board, order = parts_.messages.order, local_ranks = parts_.local_ranks](
                             MpiProgress::World& world, std::int64_t sequence) -> std::unique_ptr<Collective> {
    const auto of_sequence = [&world, sequence, over_hosts](float* values, std::int64_t size) {
      return over_hosts(world, sequence, values, size);
    };
    auto sum = std::make_unique<TwoLevelAllReduce>(board, static_cast<const SharedMemory&>(*memory), data, count,
                                                   number, local_ranks, of_sequence, order, part);
    sum->keep(memory);
    return sum;
  });
}

Buffer MpiHostExchange::allocate_for_gathers(std::size_t bytes, const std::vector<ElementRange>& reserved) {
  return gathered_.add(parts_.allocate(bytes, reserved));
}

std::int64_t MpiHostExchange::all_gather_start(Tensor tensor, const PartsByPlace& parts) {
  const auto memory = gathered_.find(tensor);
  if (memory == nullptr || !tensor.contiguous() || std::ssize(parts) != host_count()) {
    fail(
        "all_gather_start: tensor {} with parts for {} of {} hosts, expected a contiguous one in memory from "
        "allocate_for_gathers()",
        tensor.shape.text(), parts.size(), host_count());
  }
  const auto width = static_cast<std::int64_t>(size_of(tensor.dtype));
  PartsByPlace bytes;  // by position in the ring
  for (int position = 0; position < host_count(); ++position) {
    std::vector<ElementRange>& ranges = bytes.emplace_back();
    for (const auto& [begin, end] : parts[static_cast<std::size_t>(parts_.messages.stripe_of(position))]) {
      ranges.push_back({begin * width, end * width});
    }
  }
  const RingPlace& place = parts_.messages.place;
  parts_.bytes_sent += MpiAllGather::bytes_to_send(place, bytes);
  return parts_.progress.submit([=, segment_bytes = parts_.segment_bytes, data = tensor.as<char>(),
                                 board = parts_.board, number = all_gathers_++, local_ranks = parts_.local_ranks](
                                    MpiProgress::World& world, std::int64_t sequence) -> std::unique_ptr<Collective> {
    std::unique_ptr<Collective> gather =
        std::make_unique<MpiAllGather>(world.ring.get(), place, data, bytes, tag_of(sequence), segment_bytes);
    if (board != nullptr) gather = std::make_unique<HostGather>(std::move(gather), board, number, local_ranks);
    gather->keep(memory);
    return gather;
  });
}

}  // namespace babelring
