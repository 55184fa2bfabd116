#include "nmt/comm/mpi_collectives.h"

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

MpiCollective mpi_all_reduce(MPI_Comm comm, float* data, std::int64_t count) {
  if (count > std::numeric_limits<int>::max()) fail("all-reduce: {} elements, MPI takes at most 2^31 - 1", count);
  const std::int64_t bytes = count * std::int64_t{sizeof(float)};
  return {fmt::format("all-reduce of {:.1f} MB", static_cast<double>(bytes) / 1e6), bytes, {[=](MPI_Request* request) {
            return MPI_Iallreduce(MPI_IN_PLACE, data, static_cast<int>(count), MPI_FLOAT, MPI_SUM, comm, request);
          }}};
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

/// Max bytes of a message. The deadline for progress then covers a part of a transfer.
constexpr std::int64_t transfer_bytes = 4 << 20;

}  // namespace

std::int64_t bytes_sent_by(int rank, const std::vector<Transfer>& transfers) {
  std::int64_t bytes = 0;
  for (const Transfer& transfer : transfers) bytes += transfer.from == rank ? transfer.bytes : 0;
  return bytes;
}

MpiCollective mpi_transfers(MPI_Comm comm, const std::vector<Transfer>& transfers, int rank) {
  std::vector<MpiCollective::Stage> stages;
  std::int64_t bytes = 0;
  for (const Transfer& transfer : transfers) {
    bytes += transfer.bytes;
    if (transfer.from != rank && transfer.to != rank) continue;
    const bool sends = transfer.from == rank;
    for (std::int64_t begin = 0; begin < transfer.bytes; begin += transfer_bytes) {
      const int count = static_cast<int>(std::min(transfer_bytes, transfer.bytes - begin));
      stages.push_back([=, memory = transfer.memory, peer = sends ? transfer.to : transfer.from](MPI_Request* request) {
        char* const data = static_cast<char*>(memory->data()) + begin;
        return sends ? MPI_Isend(data, count, MPI_CHAR, peer, 0, comm, request)
                     : MPI_Irecv(data, count, MPI_CHAR, peer, 0, comm, request);
      });
    }
  }
  return {fmt::format("transfer of {:.1f} MB", static_cast<double>(bytes) / 1e6), 0, std::move(stages)};
}

namespace {

using Stages = std::vector<MpiCollective::Stage>;
using Ticks = std::shared_ptr<std::int64_t>;  // of rank 0's clock; in memory that outlives the messages

std::int64_t ticks_now() {
  return SteadyClock::now().time_since_epoch().count();
}

/// A stage begins when the previous one is complete, so `received` is set by the stage after the answer.
Stages asking_stages(MPI_Comm comm, const std::shared_ptr<std::vector<RoundTrip>>& trips, const Ticks& ticks) {
  Stages stages;
  for (std::size_t i = 0; i < trips->size(); ++i) {
    stages.push_back([=](MPI_Request* request) {
      (*trips)[i].sent = SteadyClock::now();
      return MPI_Isend(ticks.get(), 1, MPI_INT64_T, 0, 0, comm, request);
    });
    stages.push_back([=](MPI_Request* request) { return MPI_Irecv(ticks.get(), 1, MPI_INT64_T, 0, 0, comm, request); });
    stages.push_back([=](MPI_Request*) {
      (*trips)[i].received = SteadyClock::now();
      (*trips)[i].answered = SteadyClock::time_point(SteadyClock::duration(*ticks));
      return MPI_SUCCESS;
    });
  }
  return stages;
}

Stages answering_stages(MPI_Comm comm, const Ticks& ticks, int count, int ranks) {
  Stages stages;
  for (int i = 0; i < count * (ranks - 1); ++i) {
    const int peer = 1 + i / count;
    stages.push_back(
        [=](MPI_Request* request) { return MPI_Irecv(ticks.get(), 1, MPI_INT64_T, peer, 0, comm, request); });
    stages.push_back([=](MPI_Request* request) {
      *ticks = ticks_now();
      return MPI_Isend(ticks.get(), 1, MPI_INT64_T, peer, 0, comm, request);
    });
  }
  return stages;
}

}  // namespace

MpiCollective mpi_round_trips(MPI_Comm comm, std::shared_ptr<std::vector<RoundTrip>> trips, int count, int rank,
                              int ranks) {
  const auto ticks = std::make_shared<std::int64_t>(0);
  Stages stages = rank == 0 ? answering_stages(comm, ticks, count, ranks) : asking_stages(comm, trips, ticks);
  stages.push_back([comm](MPI_Request* request) { return MPI_Ibarrier(comm, request); });
  return {fmt::format("{} round trips to rank 0", count), 0, std::move(stages)};
}

}  // namespace babelring
