#include "nmt/comm/mpi/collectives.h"

#include <fmt/format.h>

#include <algorithm>
#include <limits>

namespace babelring {

void MpiCollective::start_stage() {
  if (stage_ < stages_.size()) check_mpi(stages_[stage_](request_.out()), name_.c_str());
}

Collective::Progress MpiCollective::advance() {
  if (!request_.test()) return Progress::none;
  if (++stage_ >= stages_.size()) return Progress::done;
  start_stage();
  return Progress::some;
}

Buffer ResultPool::take(std::size_t bytes) {
  std::ranges::sort(spare_, {}, &Buffer::bytes);
  auto smallest = std::ranges::lower_bound(spare_, bytes, {}, &Buffer::bytes);
  const bool fits = smallest != spare_.end();
  if (!fits && spare_.empty()) return allocate_host(bytes);
  if (!fits) --smallest;
  Buffer taken = std::move(*smallest);
  spare_.erase(smallest);
  if (!fits) taken = allocate_host(bytes);  // in place of one that was too small
  return taken;
}

MpiCollective mpi_all_reduce(MPI_Comm comm, float* data, std::int64_t count, ResultPool& pool) {
  if (count > std::numeric_limits<int>::max()) fail("all-reduce: {} elements, MPI takes at most 2^31 - 1", count);
  const std::int64_t bytes = count * std::int64_t{sizeof(float)};
  const auto sums = std::make_shared<Buffer>();
  const auto reduce = [=, &pool](MPI_Request* request) {
    *sums = pool.take(static_cast<std::size_t>(bytes));
    return MPI_Iallreduce(data, sums->data(), static_cast<int>(count), MPI_FLOAT, MPI_SUM, comm, request);
  };
  const auto copy = [=, &pool](MPI_Request*) {
    std::copy_n(static_cast<const float*>(sums->data()), count, data);
    pool.give_back(std::move(*sums));
    return MPI_SUCCESS;
  };
  return {fmt::format("all-reduce of {:.1f} MB", static_cast<double>(bytes) / 1e6), bytes, {reduce, copy}};
}

MpiCollective mpi_gather_doubles(MPI_Comm comm, std::shared_ptr<std::vector<double>> values, int ranks) {
  const int count = static_cast<int>(values->size()) / ranks;
  return {fmt::format("sum of {} doubles", count), 0, {[=](MPI_Request* request) {
            return MPI_Iallgather(MPI_IN_PLACE, count, MPI_DOUBLE, values->data(), count, MPI_DOUBLE, comm, request);
          }}};
}

MpiCollective mpi_barrier(MPI_Comm comm) {
  return {"barrier", 0, {[comm](MPI_Request* request) { return MPI_Ibarrier(comm, request); }}};
}

namespace {

constexpr std::int64_t max_message_bytes = 4 << 20;                  // the deadline for progress covers one message
constexpr std::int64_t max_bytes_in_flight = 2 * max_message_bytes;  // the next one is posted before one is complete
constexpr std::size_t max_messages_in_flight = 64;                   // each poll tests them all

}  // namespace

std::int64_t bytes_sent_by(int rank, const std::vector<Transfer>& transfers) {
  std::int64_t bytes = 0;
  for (const Transfer& transfer : transfers) bytes += transfer.from == rank ? transfer.bytes : 0;
  return bytes;
}

MpiTransfers::MpiTransfers(MPI_Comm comm, int tag, const std::vector<Transfer>& transfers, int rank)
    : comm_(comm), tag_(tag) {
  for (const Transfer& transfer : transfers) {
    total_bytes_ += transfer.bytes;
    if (transfer.from != rank && transfer.to != rank) continue;
    const bool sends = transfer.from == rank;
    for (std::int64_t begin = 0; begin < transfer.bytes; begin += max_message_bytes) {
      waiting_.push_back({.memory = transfer.memory,
                          .begin = begin,
                          .bytes = static_cast<int>(std::min(max_message_bytes, transfer.bytes - begin)),
                          .peer = sends ? transfer.to : transfer.from,
                          .sends = sends,
                          .request = {}});
    }
  }
}

std::string MpiTransfers::name() const {
  return fmt::format("transfer of {:.1f} MB", static_cast<double>(total_bytes_) / 1e6);
}

void MpiTransfers::post() {
  while (!waiting_.empty() && in_flight_.size() < max_messages_in_flight && bytes_in_flight_ < max_bytes_in_flight) {
    Message& message = in_flight_.emplace_back(std::move(waiting_.front()));
    waiting_.pop_front();
    bytes_in_flight_ += message.bytes;
    char* const data = static_cast<char*>(message.memory->data()) + message.begin;
    if (message.sends) {
      check_mpi(MPI_Isend(data, message.bytes, MPI_CHAR, message.peer, tag_, comm_, message.request.out()),
                "MPI_Isend");
    } else {
      check_mpi(MPI_Irecv(data, message.bytes, MPI_CHAR, message.peer, tag_, comm_, message.request.out()),
                "MPI_Irecv");
    }
  }
}

Collective::Progress MpiTransfers::advance() {
  const std::size_t before = in_flight_.size();
  std::erase_if(in_flight_, [this](Message& message) {
    if (!message.request.test()) return false;
    bytes_in_flight_ -= message.bytes;
    return true;
  });
  const bool moved = in_flight_.size() < before;
  post();
  if (in_flight_.empty()) return Progress::done;
  return moved ? Progress::some : Progress::none;
}

int MpiTransfers::waiting_for() const {
  const auto receive = std::ranges::find(in_flight_, false, &Message::sends);
  return receive == in_flight_.end() ? -1 : receive->peer;
}

namespace {

using Stages = std::vector<MpiCollective::Stage>;
using Ticks = std::shared_ptr<std::int64_t>;  // of rank 0's clock; in memory that outlives the messages

std::int64_t ticks_now() {
  return SteadyClock::now().time_since_epoch().count();
}

/// A stage begins when the previous one is complete, so `received` is set by the stage after the answer.
Stages asking_stages(MPI_Comm comm, int tag, const std::shared_ptr<std::vector<RoundTrip>>& trips, const Ticks& ticks) {
  Stages stages;
  for (std::size_t i = 0; i < trips->size(); ++i) {
    stages.push_back([=](MPI_Request* request) {
      (*trips)[i].sent = SteadyClock::now();
      return MPI_Isend(ticks.get(), 1, MPI_INT64_T, 0, tag, comm, request);
    });
    stages.push_back(
        [=](MPI_Request* request) { return MPI_Irecv(ticks.get(), 1, MPI_INT64_T, 0, tag, comm, request); });
    stages.push_back([=](MPI_Request*) {
      (*trips)[i].received = SteadyClock::now();
      (*trips)[i].answered = SteadyClock::time_point(SteadyClock::duration(*ticks));
      return MPI_SUCCESS;
    });
  }
  return stages;
}

Stages answering_stages(MPI_Comm comm, int tag, const Ticks& ticks, int count, int ranks) {
  Stages stages;
  for (int i = 0; i < count * (ranks - 1); ++i) {
    const int peer = 1 + i / count;
    stages.push_back(
        [=](MPI_Request* request) { return MPI_Irecv(ticks.get(), 1, MPI_INT64_T, peer, tag, comm, request); });
    stages.push_back([=](MPI_Request* request) {
      *ticks = ticks_now();
      return MPI_Isend(ticks.get(), 1, MPI_INT64_T, peer, tag, comm, request);
    });
  }
  return stages;
}

}  // namespace

MpiCollective mpi_round_trips(MPI_Comm comm, int tag, std::shared_ptr<std::vector<RoundTrip>> trips, int count,
                              int rank, int ranks) {
  const auto ticks = std::make_shared<std::int64_t>(0);
  Stages stages = rank == 0 ? answering_stages(comm, tag, ticks, count, ranks) : asking_stages(comm, tag, trips, ticks);
  stages.push_back([comm](MPI_Request* request) { return MPI_Ibarrier(comm, request); });
  return {fmt::format("{} round trips to rank 0", count), 0, std::move(stages)};
}

}  // namespace babelring
