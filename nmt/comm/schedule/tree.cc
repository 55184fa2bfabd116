#include "nmt/comm/schedule/tree.h"

#include <algorithm>
#include <functional>
#include <map>
#include <utility>

#include "nmt/comm/communicator.h"
#include "nmt/comm/schedule/ring.h"

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
    const std::size_t position = first_ranks.size();
    parents.push_back(position == 0 ? -1 : first_ranks[position & (position - 1)]);
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
  const auto among_hosts = host_position(hosts, rank);
  const RingPosition ring = among_hosts ? among_hosts->between : ring_position(hosts, rank);
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

std::vector<TreeStep> tree_steps(const RingPosition& ring, std::int64_t count) {
  const ElementRange all{.begin = 0, .end = count}, nothing;
  const int pairing = pairing_hosts(ring.ranks);
  const auto rank_at = [&ring](int position) { return ring.order[static_cast<std::size_t>(position)]; };
  if (ring.position >= pairing) {
    const int taker = rank_at(ring.position - pairing);
    return {{.peer = taker, .adding = true, .sent = all, .received = nothing},
            {.peer = taker, .adding = false, .sent = nothing, .received = all}};
  }
  std::vector<TreeStep> steps;
  if (ring.position + pairing < ring.ranks) {
    steps.push_back({.peer = rank_at(ring.position + pairing), .adding = true, .sent = nothing, .received = all});
  }
  ElementRange range = all;
  for (int bit = 1; bit < pairing; bit *= 2) {
    const std::int64_t middle = range.begin + (range.end - range.begin) / 2;
    ElementRange kept{.begin = range.begin, .end = middle}, given{.begin = middle, .end = range.end};
    if ((ring.position & bit) != 0) std::swap(kept, given);
    steps.push_back({.peer = rank_at(ring.position ^ bit), .adding = true, .sent = given, .received = kept});
    range = kept;
  }
  for (std::size_t step = steps.size(); step-- > 0;) {
    // By now all of `kept` is summed. Ranks that gave everything before the pairs get the sums last.
    const auto [peer, adding, given, kept] = steps[step];
    steps.push_back({.peer = peer, .adding = false, .sent = kept, .received = given});
  }
  return steps;
}

std::vector<TreeStep> tree_scatter_steps(const RingPosition& ring, std::int64_t count, std::int64_t stripe) {
  const auto elements = [&](const ElementRange& stripes) {
    return ElementRange{.begin = std::min(count, stripes.begin * stripe), .end = std::min(count, stripes.end * stripe)};
  };
  std::vector<TreeStep> steps;
  ElementRange range{.begin = 0, .end = ring.ranks};
  for (int bit = 1; bit < ring.ranks; bit *= 2) {
    const std::int64_t middle = (range.begin + range.end) / 2;
    ElementRange kept{.begin = range.begin, .end = middle}, given{.begin = middle, .end = range.end};
    if ((ring.position & bit) != 0) std::swap(kept, given);
    const int peer = ring.order[static_cast<std::size_t>(ring.position ^ bit)];
    steps.push_back({.peer = peer, .adding = true, .sent = elements(given), .received = elements(kept)});
    range = kept;
  }
  return steps;
}

int tree_scattered_stripe(int position, int ranks) {
  int stripe = 0;
  for (int bit = 1; bit < ranks; bit *= 2) stripe = 2 * stripe + ((position & bit) != 0 ? 1 : 0);
  return stripe;
}

std::int64_t elements_sent(const std::vector<TreeStep>& steps) {
  std::int64_t elements = 0;
  for (const TreeStep& step : steps) elements += step.sent.end - step.sent.begin;
  return elements;
}

std::int64_t tree_elements_sent(const RingPosition& ring, std::int64_t count) {
  return elements_sent(tree_steps(ring, count));
}

}  // namespace babelring
