#include "nmt/comm/mpi_collectives.h"

#include <fmt/format.h>

#include <algorithm>
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

MpiCollective mpi_gather_doubles(MPI_Comm comm, const std::vector<double>& own, std::vector<double>& gathered,
                                 int ranks) {
  gathered.resize(own.size() * static_cast<std::size_t>(ranks));
  return {fmt::format("sum of {} doubles", own.size()), 0, {[comm, &own, &gathered](MPI_Request* request) {
            const int count = static_cast<int>(own.size());
            return MPI_Iallgather(own.data(), count, MPI_DOUBLE, gathered.data(), count, MPI_DOUBLE, comm, request);
          }}};
}

MpiCollective mpi_gather_texts(MPI_Comm comm, const std::string& own, GatheredTexts& gathered, int rank, int ranks) {
  if (own.size() > std::size_t{std::numeric_limits<int>::max()}) fail("all-gather: a text of {} bytes", own.size());
  gathered.sizes.resize(static_cast<std::size_t>(ranks));
  gathered.sizes[static_cast<std::size_t>(rank)] = static_cast<int>(own.size());
  auto gather_sizes = [comm, &gathered](MPI_Request* request) {
    return MPI_Iallgather(MPI_IN_PLACE, 1, MPI_INT, gathered.sizes.data(), 1, MPI_INT, comm, request);
  };
  auto gather_bytes = [comm, &own, &gathered](MPI_Request* request) {
    std::int64_t total = 0;
    for (const int size : gathered.sizes) {
      gathered.offsets.push_back(static_cast<int>(total));
      total += size;
      if (total > std::numeric_limits<int>::max()) throw CommError("all-gather: the texts exceed 2 GiB together");
    }
    gathered.bytes.resize(static_cast<std::size_t>(total));
    return MPI_Iallgatherv(own.data(), static_cast<int>(own.size()), MPI_CHAR, gathered.bytes.data(),
                           gathered.sizes.data(), gathered.offsets.data(), MPI_CHAR, comm, request);
  };
  return {fmt::format("all-gather of {} bytes", own.size()), 0, {gather_sizes, gather_bytes}};
}

MpiCollective mpi_broadcast(MPI_Comm comm, void* data, std::size_t bytes, int root) {
  constexpr std::size_t piece = std::size_t{1} << 30;  // below MPI's int
  std::vector<MpiCollective::Stage> stages;
  for (std::size_t offset = 0; offset < bytes; offset += piece) {
    stages.emplace_back([=](MPI_Request* request) {
      const int count = static_cast<int>(std::min(piece, bytes - offset));
      return MPI_Ibcast(static_cast<char*>(data) + offset, count, MPI_CHAR, root, comm, request);
    });
  }
  return {fmt::format("broadcast of {:.1f} MB from rank {}", static_cast<double>(bytes) / 1e6, root), 0,
          std::move(stages)};
}

MpiCollective mpi_barrier(MPI_Comm comm) {
  return {"barrier", 0, {[comm](MPI_Request* request) { return MPI_Ibarrier(comm, request); }}};
}

}  // namespace babelring
