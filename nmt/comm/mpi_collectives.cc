#include "nmt/comm/mpi_collectives.h"

#include <fmt/format.h>

#include <limits>

#include "nmt/comm/communicator.h"

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

MpiCollective mpi_gather_texts(MPI_Comm comm, std::shared_ptr<GatheredTexts> texts, int rank, int ranks) {
  const std::size_t size = texts->own.size();
  if (size > std::size_t{std::numeric_limits<int>::max()})
    fail("all-gather: the text has {} bytes, expected at most 2^31 - 1", size);
  texts->sizes.resize(static_cast<std::size_t>(ranks));
  texts->sizes[static_cast<std::size_t>(rank)] = static_cast<int>(size);
  auto gather_sizes = [comm, texts](MPI_Request* request) {
    return MPI_Iallgather(MPI_IN_PLACE, 1, MPI_INT, texts->sizes.data(), 1, MPI_INT, comm, request);
  };
  auto gather_bytes = [comm, texts](MPI_Request* request) {
    std::int64_t total = 0;
    for (const int size_of_rank : texts->sizes) {
      texts->offsets.push_back(static_cast<int>(total));
      total += size_of_rank;
      if (total > std::numeric_limits<int>::max()) throw CommError("all-gather: the texts exceed 2 GiB together");
    }
    texts->bytes.resize(static_cast<std::size_t>(total));
    return MPI_Iallgatherv(texts->own.data(), static_cast<int>(texts->own.size()), MPI_CHAR, texts->bytes.data(),
                           texts->sizes.data(), texts->offsets.data(), MPI_CHAR, comm, request);
  };
  return {fmt::format("all-gather of {} bytes", size), 0, {gather_sizes, gather_bytes}};
}

MpiCollective mpi_broadcast(MPI_Comm comm, std::shared_ptr<std::string> bytes, int root) {
  return {fmt::format("broadcast of {:.1f} MB from rank {}", static_cast<double>(bytes->size()) / 1e6, root),
          0,
          {[=](MPI_Request* request) {
            return MPI_Ibcast(bytes->data(), static_cast<int>(bytes->size()), MPI_CHAR, root, comm, request);
          }}};
}

MpiCollective mpi_barrier(MPI_Comm comm) {
  return {"barrier", 0, {[comm](MPI_Request* request) { return MPI_Ibarrier(comm, request); }}};
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
