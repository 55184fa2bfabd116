#include "nmt/comm/mpi/peer_monitor.h"

namespace babelring {
namespace {

constexpr int question_tag = 1, answer_tag = 2;

}  // namespace

void PeerMonitor::serve(std::int64_t entered) {
  while (true) {
    int waiting = 0;
    MPI_Status status;
    check_mpi(MPI_Iprobe(MPI_ANY_SOURCE, MPI_ANY_TAG, comm_, &waiting, &status), "MPI_Iprobe");
    if (!waiting) break;
    PeerKnowledge::Report report;  // already received by MPI, so MPI_Recv does not block
    check_mpi(MPI_Recv(&report, sizeof report, MPI_BYTE, status.MPI_SOURCE, status.MPI_TAG, comm_, MPI_STATUS_IGNORE),
              "MPI_Recv");
    const auto now = SteadyClock::now();
    if (status.MPI_TAG == question_tag) {
      send(knowledge_.report(status.MPI_SOURCE, entered, now), status.MPI_SOURCE, answer_tag);
    } else {
      knowledge_.note(status.MPI_SOURCE, report, now);
    }
  }
  while (!outgoing_.empty() && outgoing_.front().request.test()) outgoing_.pop_front();
}

void PeerMonitor::ask(SteadyClock::time_point waiting_since, Nanoseconds longest) {
  for (const int peer : knowledge_.due(SteadyClock::now(), waiting_since, longest)) send({}, peer, question_tag);
}

void PeerMonitor::tell(std::int64_t entered) {
  const auto now = SteadyClock::now();
  for (const int peer : knowledge_.peers()) send(knowledge_.report(peer, entered, now), peer, answer_tag);
}

void PeerMonitor::send(const PeerKnowledge::Report& report, int peer, int tag) {
  Outgoing& message = outgoing_.emplace_back(Outgoing{report, {}});
  check_mpi(MPI_Isend(&message.report, sizeof message.report, MPI_BYTE, peer, tag, comm_, message.request.out()),
            "MPI_Isend");
}

}  // namespace babelring
