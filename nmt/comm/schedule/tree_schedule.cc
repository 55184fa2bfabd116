#include "nmt/comm/schedule/tree_schedule.h"

#include <algorithm>
#include <utility>

namespace babelring {

std::vector<TreeStep> tree_steps(const RingPlace& place, std::int64_t count) {
  const ElementRange all{.begin = 0, .end = count}, nothing;
  const int pairing = pairing_hosts(place.ranks);
  const auto rank_at = [&place](int position) { return place.order[static_cast<std::size_t>(position)]; };
  if (place.position >= pairing) {
    const int taker = rank_at(place.position - pairing);
    return {{.peer = taker, .adding = true, .sent = all, .received = nothing},
            {.peer = taker, .adding = false, .sent = nothing, .received = all}};
  }
  std::vector<TreeStep> steps;
  if (place.position + pairing < place.ranks) {
    steps.push_back({.peer = rank_at(place.position + pairing), .adding = true, .sent = nothing, .received = all});
  }
  ElementRange range = all;
  for (int bit = 1; bit < pairing; bit *= 2) {
    const std::int64_t middle = range.begin + (range.end - range.begin) / 2;
    ElementRange kept{.begin = range.begin, .end = middle}, given{.begin = middle, .end = range.end};
    if ((place.position & bit) != 0) std::swap(kept, given);
    steps.push_back({.peer = rank_at(place.position ^ bit), .adding = true, .sent = given, .received = kept});
    range = kept;
  }
  for (std::size_t step = steps.size(); step-- > 0;) {
    // By now all of `kept` is summed. Ranks that gave everything before the pairs get the sums last.
    const auto [peer, adding, given, kept] = steps[step];
    steps.push_back({.peer = peer, .adding = false, .sent = kept, .received = given});
  }
  return steps;
}

std::vector<TreeStep> tree_scatter_steps(const RingPlace& place, std::int64_t count, std::int64_t stripe) {
  const auto elements = [&](const ElementRange& stripes) {
    return ElementRange{.begin = std::min(count, stripes.begin * stripe), .end = std::min(count, stripes.end * stripe)};
  };
  std::vector<TreeStep> steps;
  ElementRange range{.begin = 0, .end = place.ranks};
  for (int bit = 1; bit < place.ranks; bit *= 2) {
    const std::int64_t middle = (range.begin + range.end) / 2;
    ElementRange kept{.begin = range.begin, .end = middle}, given{.begin = middle, .end = range.end};
    if ((place.position & bit) != 0) std::swap(kept, given);
    const int peer = place.order[static_cast<std::size_t>(place.position ^ bit)];
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

std::int64_t tree_elements_sent(const RingPlace& place, std::int64_t count) {
  return elements_sent(tree_steps(place, count));
}

}  // namespace babelring
