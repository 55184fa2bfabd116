#include "nmt/comm/mpi_peer_monitor.h"

#include <fmt/format.h>

namespace babelring {
namespace {

constexpr int query_tag = 1, reply_tag = 2;

}  // namespace

std::string rank_name(int rank, const std::vector<std::string>& hosts) {
  if (rank < 0) return "any";
  const auto index = static_cast<std::size_t>(rank);
  return index < hosts.size() ? fmt::format("{} (host {})", rank, hosts[index]) : fmt::format("{}", rank);
}

PeerMonitor::PeerMonitor(const MpiChannel& channel, int rank, int ranks)
    : comm_(channel.get()), rank_(rank), peers_(static_cast<std::size_t>(ranks)) {}

void PeerMonitor::serve(std::int64_t entered) {
  while (true) {
    int waiting = 0;
    MPI_Status status;
    check_mpi(MPI_Iprobe(MPI_ANY_SOURCE, MPI_ANY_TAG, comm_, &waiting, &status), "MPI_Iprobe");
    if (!waiting) break;
    std::int64_t peer_entered = 0;  // already received by MPI, so MPI_Recv does not block
    check_mpi(MPI_Recv(&peer_entered, 1, MPI_INT64_T, status.MPI_SOURCE, status.MPI_TAG, comm_, MPI_STATUS_IGNORE),
              "MPI_Recv");
    Peer& peer = peers_[static_cast<std::size_t>(status.MPI_SOURCE)];
    if (status.MPI_TAG == query_tag) {
      send(entered, status.MPI_SOURCE, reply_tag);
    } else {
      peer.entered = peer_entered;
      peer.unanswered_since.reset();
    }
  }
  while (!outgoing_.empty() && outgoing_.front().request.test()) outgoing_.pop_front();
}

void PeerMonitor::ask() {
  for (int peer = 0; peer < static_cast<int>(peers_.size()); ++peer) {
    auto& since = peers_[static_cast<std::size_t>(peer)].unanswered_since;
    if (peer == rank_ || since) continue;
    since = SteadyClock::now();
    send(0, peer, query_tag);
  }
}

void PeerMonitor::send(std::int64_t entered, int peer, int tag) {
  Outgoing& message = outgoing_.emplace_back(Outgoing{entered, {}});
  check_mpi(MPI_Isend(&message.entered, 1, MPI_INT64_T, peer, tag, comm_, message.request.out()), "MPI_Isend");
}

std::string PeerMonitor::silent(Nanoseconds silence, const std::vector<std::string>& hosts) const {
  const auto now = SteadyClock::now();
  std::vector<std::string> names;
  for (std::size_t rank = 0; rank < peers_.size(); ++rank) {
    const auto& unanswered = peers_[rank].unanswered_since;
    if (unanswered && now - *unanswered >= silence) names.push_back(rank_name(static_cast<int>(rank), hosts));
  }
  return names.empty() ? "" : fmt::format("no answer from rank {}: stopped or lost", fmt::join(names, ", "));
}

std::string PeerMonitor::behind(std::int64_t sequence, const std::vector<std::string>& hosts) const {
  int last = -1;
  std::int64_t fewest = sequence + 1;
  for (std::size_t rank = 0; rank < peers_.size(); ++rank) {
    const auto& entered = peers_[rank].entered;
    if (!entered || *entered >= fewest) continue;
    last = static_cast<int>(rank);
    fewest = *entered;
  }
  if (last < 0) return "";
  return fmt::format("rank {} answers, but has entered only {} collectives", rank_name(last, hosts), fewest);
}

}  // namespace babelring
