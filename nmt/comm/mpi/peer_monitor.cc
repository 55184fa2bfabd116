#include "nmt/comm/mpi/peer_monitor.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <chrono>

namespace babelring {
namespace {

using std::chrono::milliseconds;

constexpr milliseconds first_interval{20};
constexpr std::int64_t max_age_ms = 10'000;

std::int64_t ms_between(SteadyClock::time_point begin, SteadyClock::time_point end) {
  return std::chrono::duration_cast<milliseconds>(end - begin).count();
}

}  // namespace

std::string rank_name(int rank, const std::vector<std::string>& hosts) {
  if (rank < 0) return "any";
  const auto index = static_cast<std::size_t>(rank);
  return index < hosts.size() ? fmt::format("{} (host {})", rank, hosts[index]) : fmt::format("{}", rank);
}

void PeerKnowledge::set_peers(std::vector<int> peers) {
  asked_ = std::move(peers);
  std::sort(asked_.begin(), asked_.end());
  asked_.erase(std::unique(asked_.begin(), asked_.end()), asked_.end());
  std::erase(asked_, rank_);
}

std::vector<int> PeerKnowledge::due(Time now, Time waiting_since, Nanoseconds longest) {
  if (round_ < waiting_since) interval_ = Nanoseconds(0);
  if (interval_ > Nanoseconds(0) && now - round_ < interval_) return {};
  round_ = now;
  interval_ = std::min<Nanoseconds>(longest, std::max<Nanoseconds>(first_interval, 2 * interval_));
  std::vector<int> peers;
  for (const int rank : asked_) {
    Peer& peer = known_[rank];
    if (peer.unanswered_since) continue;
    peer.unanswered_since = now;
    peers.push_back(rank);
  }
  return peers;
}

PeerKnowledge::News PeerKnowledge::aged(const News& news, Time reported, Time now) {
  const std::int64_t age_ms = news.age_ms + ms_between(reported, now);
  return {.rank = age_ms <= max_age_ms ? news.rank : -1, .value = news.value, .age_ms = age_ms};
}

/// The silent ranks among this rank's own peers and in the reports of all ranks but `except`; without this rank.
std::vector<PeerKnowledge::News> PeerKnowledge::all_silent(Time now, int except) const {
  std::vector<News> found;
  for (const auto& [rank, peer] : known_) {
    if (peer.unanswered_since) found.push_back({.rank = rank, .value = ms_between(*peer.unanswered_since, now)});
    if (!peer.report || rank == except) continue;
    News news = aged(peer.report->silent, peer.reported, now);
    news.value += ms_between(peer.reported, now);
    // This rank's own observation is newer.
    const bool own = news.rank == rank_ || std::binary_search(asked_.begin(), asked_.end(), news.rank);
    if (news.rank >= 0 && !own) found.push_back(news);
  }
  return found;
}

std::vector<PeerKnowledge::News> PeerKnowledge::all_behind(Time now, int except) const {
  std::vector<News> found;
  for (const auto& [rank, peer] : known_) {
    if (!peer.report) continue;
    found.push_back(aged({.rank = rank, .value = peer.report->entered}, peer.reported, now));
    if (rank != except && peer.report->behind.rank != rank_) {
      found.push_back(aged(peer.report->behind, peer.reported, now));
    }
  }
  std::erase_if(found, [](const News& news) { return news.rank < 0; });
  return found;
}

PeerKnowledge::Report PeerKnowledge::report(int to, std::int64_t entered, Time now) const {
  Report report{.entered = entered, .silent = {}, .behind = {}};
  const auto by_value = [](const News& a, const News& b) { return a.value < b.value; };
  const std::vector<News> silent = all_silent(now, to), behind = all_behind(now, to);
  if (!silent.empty()) report.silent = *std::max_element(silent.begin(), silent.end(), by_value);
  if (!behind.empty()) report.behind = *std::min_element(behind.begin(), behind.end(), by_value);
  return report;
}

void PeerKnowledge::note(int from, const Report& report, Time now) {
  Peer& peer = known_[from];
  peer.unanswered_since.reset();
  peer.report = report;
  peer.reported = now;
}

std::string PeerKnowledge::silent(Time now, Nanoseconds silence, const std::vector<std::string>& hosts) const {
  std::vector<std::int64_t> ranks;
  for (const News& news : all_silent(now, -1)) {
    if (milliseconds(news.value) >= silence) ranks.push_back(news.rank);
  }
  std::sort(ranks.begin(), ranks.end());
  ranks.erase(std::unique(ranks.begin(), ranks.end()), ranks.end());
  std::vector<std::string> names;
  for (const std::int64_t rank : ranks) names.push_back(rank_name(static_cast<int>(rank), hosts));
  return names.empty() ? "" : fmt::format("no answer from rank {}: stopped or lost", fmt::join(names, ", "));
}

std::string PeerKnowledge::behind(Time now, std::int64_t sequence, const std::vector<std::string>& hosts) const {
  std::optional<News> last;
  for (const News& news : all_behind(now, -1)) {
    if (news.value <= sequence && (!last || news.value < last->value)) last = news;
  }
  if (!last) return "";
  return fmt::format("rank {} answers, but has entered only {} collectives",
                     rank_name(static_cast<int>(last->rank), hosts), last->value);
}

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
