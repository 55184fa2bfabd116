#include "nmt/comm/mpi/host_exchange.h"

#include <fmt/format.h>

#include <algorithm>

#include "nmt/comm/shared/comm_memory.h"
#include "nmt/comm/shared/shared_all_reduce.h"

namespace babelring {
namespace {

constexpr std::size_t max_in_flight = 32;  // messages in each direction

std::size_t position_before(const RingPosition& ring, int steps) {
  return static_cast<std::size_t>((ring.position - steps + ring.ranks) % ring.ranks);
}

std::int64_t bytes_of(const std::vector<ElementRange>& ranges) {
  std::int64_t bytes = 0;
  for (const auto& [begin, end] : ranges) bytes += end - begin;
  return bytes;
}

void add_segments(const std::vector<ElementRange>& ranges, std::int64_t segment_bytes,
                  std::vector<ElementRange>& segments) {
  for (const auto& [begin, end] : ranges) {
    for (std::int64_t at = begin; at < end; at += segment_bytes) {
      segments.push_back({at, std::min(end, at + segment_bytes)});
    }
  }
}

}  // namespace

MpiAllGather::MpiAllGather(MPI_Comm comm, const RingPosition& ring, char* data, const PartsByPosition& parts, int tag,
                           std::int64_t segment_bytes)
    : comm_(comm), left_(ring.left), right_(ring.right), tag_(tag), data_(data) {
  for (const auto& ranges : parts) bytes_ += bytes_of(ranges);
  for (int step = 0; step + 1 < ring.ranks; ++step) {
    add_segments(parts[position_before(ring, step)], segment_bytes, sends_);
    if (step == 0) own_ = sends_.size();
    add_segments(parts[position_before(ring, step + 1)], segment_bytes, receives_);
  }
}

std::int64_t MpiAllGather::bytes_to_send(const RingPosition& ring, const PartsByPosition& parts) {
  std::int64_t bytes = 0;
  for (int step = 0; step + 1 < ring.ranks; ++step) bytes += bytes_of(parts[position_before(ring, step)]);
  return bytes;
}

std::string MpiAllGather::name() const {
  return fmt::format("all-gather of {:.1f} MB", static_cast<double>(bytes_) / 1e6);
}

Collective::Progress MpiAllGather::advance() {
  const bool received = finish(receiving_, receives_done_), sent = finish(sending_, sends_done_);
  if (received || sent) post();
  if (receives_done_ == receives_.size() && sends_done_ == sends_.size()) return Progress::done;
  return received || sent ? Progress::some : Progress::none;
}

void MpiAllGather::post() {
  for (; receives_posted_ < receives_.size() && receiving_.size() < max_in_flight; ++receives_posted_) {
    const auto [begin, end] = receives_[receives_posted_];
    check_mpi(MPI_Irecv(data_ + begin, static_cast<int>(end - begin), MPI_BYTE, left_, tag_, comm_,
                        receiving_.emplace_back().out()),
              "MPI_Irecv");
  }
  const std::size_t sendable = std::min(sends_.size(), own_ + receives_done_);
  for (; sends_posted_ < sendable && sending_.size() < max_in_flight; ++sends_posted_) {
    const auto [begin, end] = sends_[sends_posted_];
    check_mpi(MPI_Isend(data_ + begin, static_cast<int>(end - begin), MPI_BYTE, right_, tag_, comm_,
                        sending_.emplace_back().out()),
              "MPI_Isend");
  }
}

/// Removes the completed requests at the front.
bool MpiAllGather::finish(std::deque<MpiRequest>& requests, std::size_t& done) {
  bool any = false;
  while (!requests.empty() && requests.front().test()) {
    requests.pop_front();
    ++done;
    any = true;
  }
  return any;
}

Collective::Progress HostGather::advance() {
  if (!received_) {
    const Progress progress = own_->advance();
    if (progress != Progress::done) return progress;
    received_ = true;
  }
  bool moved = false;
  // The counter holds a number of all-gathers, so they are published in order.
  if (!published_ && board_->own().gathered.load() == number_) {
    board_->own().gathered.store(number_ + 1);
    board_->ring_peers();
    published_ = moved = true;
  }
  if (published_ && board_->behind(&SharedBoard::Place::gathered, number_) < 0) return Progress::done;
  return moved ? Progress::some : Progress::none;
}

int HostGather::waiting_for() const {
  if (!received_) return own_->waiting_for();
  const int rank = board_->behind(&SharedBoard::Place::gathered, number_);
  return rank < 0 ? -1 : local_ranks_[static_cast<std::size_t>(rank)];
}

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

std::int64_t MpiHostExchange::all_gather_start(Tensor tensor, const PartsByPosition& parts) {
  const auto memory = gathered_.find(tensor);
  if (memory == nullptr || !tensor.contiguous() || std::ssize(parts) != host_count()) {
    fail(
        "all_gather_start: tensor {} with parts for {} of {} hosts, expected a contiguous one in memory from "
        "allocate_for_gathers()",
        tensor.shape.text(), parts.size(), host_count());
  }
  const auto width = static_cast<std::int64_t>(size_of(tensor.dtype));
  PartsByPosition bytes;  // by position in the ring
  for (int position = 0; position < host_count(); ++position) {
    std::vector<ElementRange>& ranges = bytes.emplace_back();
    for (const auto& [begin, end] : parts[static_cast<std::size_t>(parts_.messages.stripe_of(position))]) {
      ranges.push_back({begin * width, end * width});
    }
  }
  const RingPosition& ring = parts_.messages.ring;
  parts_.bytes_sent += MpiAllGather::bytes_to_send(ring, bytes);
  return parts_.progress.submit([=, segment_bytes = parts_.segment_bytes, data = tensor.as<char>(),
                                 board = parts_.board, number = all_gathers_++, local_ranks = parts_.local_ranks](
                                    MpiProgress::World& world, std::int64_t sequence) -> std::unique_ptr<Collective> {
    std::unique_ptr<Collective> gather =
        std::make_unique<MpiAllGather>(world.ring.get(), ring, data, bytes, tag_of(sequence), segment_bytes);
    if (board != nullptr) gather = std::make_unique<HostGather>(std::move(gather), board, number, local_ranks);
    gather->keep(memory);
    return gather;
  });
}

}  // namespace babelring
