#include "nmt/comm/schedule/rank_tree.h"

#include <algorithm>
#include <functional>
#include <map>

#include "nmt/comm/communicator.h"
#include "nmt/comm/schedule/ring_order.h"

namespace babelring {

RankTree RankTree::by_number(int ranks) {
  std::vector<int> parents;
  for (int rank = 0; rank < ranks; ++rank) parents.push_back(rank == 0 ? -1 : rank & (rank - 1));
  return RankTree(std::move(parents));
}

RankTree RankTree::by_host(const std::vector<std::string>& hosts) {
  std::vector<int> first_ranks, parents;
  std::map<std::string, int> first_of;
  for (const std::string& host : hosts) {
    const int rank = static_cast<int>(parents.size());
    const auto [known, is_first] = first_of.try_emplace(host, rank);
    if (!is_first) {
      parents.push_back(known->second);
      continue;
    }
    const std::size_t place = first_ranks.size();
    parents.push_back(place == 0 ? -1 : first_ranks[place & (place - 1)]);
    first_ranks.push_back(rank);
  }
  return RankTree(std::move(parents));
}

std::vector<int> RankTree::children(int rank) const {
  std::vector<int> found;
  for (int other = 0; other < ranks(); ++other) {
    if (parent(other) == rank) found.push_back(other);
  }
  return found;
}

std::vector<int> RankTree::neighbours(int rank) const {
  std::vector<int> found = children(rank);
  if (parent(rank) >= 0) found.push_back(parent(rank));
  return found;
}

int RankTree::toward(int from, int to) const {
  int below = to;  // on the way from `to` up to the root, the last rank before `from`
  for (int above = to; above >= 0; above = parent(above)) {
    if (above == from) return below;
    below = above;
  }
  return parent(from);
}

std::vector<int> peers_to_ask(const std::vector<std::string>& hosts, int rank) {
  std::vector<int> peers = RankTree::by_host(hosts).neighbours(rank);
  const auto place = host_place(hosts, rank);
  const RingPlace ring = place ? place->between : ring_place(hosts, rank);
  peers.insert(peers.end(), {ring.left, ring.right});
  for (std::size_t other = 0; other < hosts.size(); ++other) {
    if (hosts[other] == hosts[static_cast<std::size_t>(rank)]) peers.push_back(static_cast<int>(other));
  }
  std::sort(peers.begin(), peers.end());
  peers.erase(std::unique(peers.begin(), peers.end()), peers.end());
  std::erase(peers, rank);
  return peers;
}

void or_bytes(std::string& own, const std::string& below) {
  if (own.size() != below.size()) {
    throw CommError(fmt::format("or of {} bytes: another rank has {} bytes", own.size(), below.size()));
  }
  std::transform(own.begin(), own.end(), below.begin(), own.begin(), std::bit_or<>());
}

}  // namespace babelring
