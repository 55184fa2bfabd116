#include "nmt/comm/schedule/ring.h"

#include <algorithm>

namespace babelring {
namespace {

/// The ranks of each host, ascending. Hosts are ordered by their lowest rank.
std::vector<std::vector<int>> ranks_by_host(const std::vector<std::string>& hosts) {
  std::vector<std::vector<int>> ranks;
  for (std::size_t rank = 0; rank < hosts.size(); ++rank) {
    const auto known = std::find_if(ranks.begin(), ranks.end(), [&](const std::vector<int>& of_host) {
      return hosts[static_cast<std::size_t>(of_host[0])] == hosts[rank];
    });
    std::vector<int>& of_host = known != ranks.end() ? *known : ranks.emplace_back();
    of_host.push_back(static_cast<int>(rank));
  }
  return ranks;
}

RingPosition place_in(const std::vector<int>& order, std::size_t position) {
  const std::size_t ranks = order.size();
  return {.position = static_cast<int>(position),
          .ranks = static_cast<int>(ranks),
          .left = order[(position + ranks - 1) % ranks],
          .right = order[(position + 1) % ranks],
          .order = order};
}

std::size_t index_of(const std::vector<int>& ranks, int rank) {
  return static_cast<std::size_t>(std::find(ranks.begin(), ranks.end(), rank) - ranks.begin());
}

}  // namespace

RingPosition ring_position(const std::vector<std::string>& hosts, int rank) {
  std::vector<int> order;
  for (const std::vector<int>& of_host : ranks_by_host(hosts))
    order.insert(order.end(), of_host.begin(), of_host.end());
  return place_in(order, index_of(order, rank));
}

std::optional<HostPosition> host_position(const std::vector<std::string>& hosts, int rank) {
  const std::vector<std::vector<int>> ranks = ranks_by_host(hosts);
  const auto own = std::find_if(ranks.begin(), ranks.end(), [&](const std::vector<int>& of_host) {
    return hosts[static_cast<std::size_t>(of_host[0])] == hosts[static_cast<std::size_t>(rank)];
  });
  std::vector<int> same_index;  // on each host the rank with this rank's index
  for (const std::vector<int>& of_host : ranks) {
    if (of_host.size() != own->size()) return std::nullopt;
    same_index.push_back(of_host[index_of(*own, rank)]);
  }
  return HostPosition{.local_ranks = *own,
                      .between = place_in(same_index, static_cast<std::size_t>(own - ranks.begin()))};
}

int RingCursor::count() const {
  return static_cast<int>(std::min(layout_.segment, layout_.chunk_count(chunk()) - offset_));
}

void RingCursor::next() {
  offset_ += layout_.segment;
  skip_empty();
}

void RingCursor::skip_empty() {
  while (!at_end() && offset_ >= layout_.chunk_count(chunk())) {
    ++step_;
    offset_ = 0;
  }
}

}  // namespace babelring
