#include "nmt/comm/mpi/all_gather.h"

#include <fmt/format.h>

#include <algorithm>

namespace babelring {
namespace {

constexpr std::size_t max_in_flight = 32;  // messages in each direction

std::size_t position_before(const RingPlace& place, int steps) {
  return static_cast<std::size_t>((place.position - steps + place.ranks) % place.ranks);
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

MpiAllGather::MpiAllGather(MPI_Comm comm, const RingPlace& place, char* data, const PartsByPlace& parts, int tag,
                           std::int64_t segment_bytes)
    : comm_(comm), left_(place.left), right_(place.right), tag_(tag), data_(data) {
  for (const auto& ranges : parts) bytes_ += bytes_of(ranges);
  for (int step = 0; step + 1 < place.ranks; ++step) {
    add_segments(parts[position_before(place, step)], segment_bytes, sends_);
    if (step == 0) own_ = sends_.size();
    add_segments(parts[position_before(place, step + 1)], segment_bytes, receives_);
  }
}

std::int64_t MpiAllGather::bytes_to_send(const RingPlace& place, const PartsByPlace& parts) {
  std::int64_t bytes = 0;
  for (int step = 0; step + 1 < place.ranks; ++step) bytes += bytes_of(parts[position_before(place, step)]);
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

}  // namespace babelring
