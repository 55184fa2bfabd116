#pragma once

#include <cstdint>
#include <deque>
#include <map>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "base/clock.h"
#include "nmt/comm/mpi/handles.h"

namespace babelring {

/// "1 (host b)", "1" if its host is unknown, "any" for -1.
std::string rank_name(int rank, const std::vector<std::string>& hosts);

/// A waiting rank's knowledge of the others: which are silent, and which have not entered a collective. It asks
/// only its peers, and each answer also passes on what its sender has learnt, so that with a thousand ranks everybody
/// can name a lost rank although a rank asks few. Makes no calls to MPI; times are passed in.
class PeerKnowledge {
 public:
  using Time = SteadyClock::time_point;
  /// Something learnt of a rank. Old news is dropped, because ranks pass it on in circles.
  struct News {
    std::int64_t rank = -1;  // -1: none
    std::int64_t value = 0;  // how long it has been silent in ms, or how many collectives it has entered
    std::int64_t age_ms = 0;
  };
  /// The answer to a question.
  struct Report {
    std::int64_t entered = 0;  // collectives that the sender has entered
    News silent, behind;       // the rank that has been silent longest, and the one that has entered fewest collectives
  };

  /// `peers`: the ranks that it asks.
  PeerKnowledge(int rank, std::vector<int> peers) : rank_(rank) { set_peers(std::move(peers)); }
  void set_peers(std::vector<int> peers);
  const std::vector<int>& peers() const { return asked_; }

  /// The peers to ask now; they count as asked. Rounds follow one another after 20 ms at first, then more and more
  /// slowly, at last after `longest`. Without any since `waiting_since`, the rounds start over. Peers that owe an
  /// answer are not asked again.
  std::vector<int> due(Time now, Time waiting_since, Nanoseconds longest);
  /// The answer to `to`, without that peer's own reports.
  Report report(int to, std::int64_t entered, Time now) const;
  void note(int from, const Report& report, Time now);

  /// Names the ranks that have been silent for `silence`: "no answer from rank 1 (host b): stopped or lost"; empty if
  /// there are none.
  std::string silent(Time now, Nanoseconds silence, const std::vector<std::string>& hosts) const;
  /// Names the rank that has entered the fewest collectives, if it has not entered collective `sequence`; otherwise
  /// empty.
  std::string behind(Time now, std::int64_t sequence, const std::vector<std::string>& hosts) const;

 private:
  struct Peer {
    std::optional<Time> unanswered_since;
    std::optional<Report> report;  // its last one
    Time reported{};
  };
  static News aged(const News& news, Time reported, Time now);
  std::vector<News> all_silent(Time now, int except) const;
  std::vector<News> all_behind(Time now, int except) const;

  int rank_;
  std::map<int, Peer> known_;  // by rank; only those that were asked or have reported
  std::vector<int> asked_;
  Time round_{};
  Nanoseconds interval_{};
};

/// Distinguishes a stopped or lost rank from one that is only late. While a collective waits, a rank asks its peers. A
/// peer's communication thread answers, even if its main thread is busy, with the number of collectives that its main
/// thread has entered and with its knowledge of others (PeerKnowledge). Used only by the communication thread; nothing
/// blocks. Throws CommError.
class PeerMonitor {
 public:
  /// `peers`: the ranks that it asks.
  PeerMonitor(const MpiChannel& channel, int rank, std::vector<int> peers)
      : comm_(channel.get()), knowledge_(rank, std::move(peers)) {}

  /// Sets whom this rank asks.
  void set_peers(std::vector<int> peers) { knowledge_.set_peers(std::move(peers)); }
  /// Receives questions and answers. Answers that this rank has entered `entered` collectives.
  void serve(std::int64_t entered);
  /// Asks the peers if a round is due: see PeerKnowledge::due().
  void ask(SteadyClock::time_point waiting_since, Nanoseconds longest);
  /// Sends what this rank knows to all peers, unasked: for the last moment before it gives up and no longer answers.
  void tell(std::int64_t entered);

  std::string silent(Nanoseconds silence, const std::vector<std::string>& hosts) const {
    return knowledge_.silent(SteadyClock::now(), silence, hosts);
  }
  std::string behind(std::int64_t sequence, const std::vector<std::string>& hosts) const {
    return knowledge_.behind(SteadyClock::now(), sequence, hosts);
  }

 private:
  struct Outgoing {
    PeerKnowledge::Report report;
    MpiRequest request;
  };
  void send(const PeerKnowledge::Report& report, int peer, int tag);

  MPI_Comm comm_;
  PeerKnowledge knowledge_;
  std::deque<Outgoing> outgoing_;  // a deque keeps addresses stable: MPI reads the values until they are sent
};

}  // namespace babelring
