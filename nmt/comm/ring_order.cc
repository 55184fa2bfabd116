#include "nmt/comm/ring_order.h"

#include <algorithm>

namespace babelring {

RingPlace ring_place(const std::vector<std::string>& hosts, int rank) {
  std::vector<int> order;
  for (std::size_t first = 0; first < hosts.size(); ++first) {
    if (std::find(hosts.begin(), hosts.begin() + static_cast<std::ptrdiff_t>(first), hosts[first]) !=
        hosts.begin() + static_cast<std::ptrdiff_t>(first)) {
      continue;  // this host's ranks have been added
    }
    for (std::size_t other = first; other < hosts.size(); ++other) {
      if (hosts[other] == hosts[first]) order.push_back(static_cast<int>(other));
    }
  }
  const auto ranks = order.size();
  const auto position = static_cast<std::size_t>(std::find(order.begin(), order.end(), rank) - order.begin());
  return {.position = static_cast<int>(position),
          .ranks = static_cast<int>(ranks),
          .left = order[(position + ranks - 1) % ranks],
          .right = order[(position + 1) % ranks]};
}

}  // namespace babelring
