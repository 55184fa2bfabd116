#include "server/store/sequence_set.h"

#include <iterator>

namespace babelring::store {

bool SequenceSet::insert(std::int64_t sequence) {
  auto next = ranges_.upper_bound(sequence);
  if (next != ranges_.begin()) {
    auto previous = std::prev(next);
    if (sequence <= previous->second) return false;
    if (sequence == previous->second + 1) {
      previous->second = sequence;
      if (next != ranges_.end() && next->first == sequence + 1) {
        previous->second = next->second;
        ranges_.erase(next);
      }
      return true;
    }
  }
  std::int64_t last = sequence;
  if (next != ranges_.end() && next->first == sequence + 1) {
    last = next->second;
    ranges_.erase(next);
  }
  ranges_.emplace(sequence, last);
  return true;
}

std::int64_t SequenceSet::size() const {
  std::int64_t count = 0;
  for (const auto& [first, last] : ranges_) count += last - first + 1;
  return count;
}

std::int64_t SequenceSet::missing() const {
  return ranges_.empty() ? 0 : ranges_.rbegin()->second - size();
}

SequenceSet::Ranges read_arrivals(Database& database, std::int64_t run, std::int64_t attempt, std::int64_t rank) {
  Statement rows = database.prepare("SELECT first, last FROM arrivals WHERE run = ? AND attempt = ? AND rank = ?");
  rows.bind(run, attempt, rank);
  SequenceSet::Ranges ranges;
  std::int64_t first = 0, last = 0;
  while (rows.next(first, last)) ranges.emplace(first, last);
  return ranges;
}

}  // namespace babelring::store
