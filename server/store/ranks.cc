#include "server/store/ranks.h"

#include <iterator>

namespace babelring::store {

template <const_or_not<RankRow> Row, class Column>
void visit_columns(Row& rank, Column&& column) {
  column("rank", rank.rank);
  column("attempt", rank.attempt);
  column("host", rank.host);
  column("pid", rank.pid);
  column("device", rank.device);
  column("peak_flops", rank.peak_flops);
  column("peak_bytes_per_second", rank.peak_bytes_per_second);
  column("libraries", rank.libraries);
  column("first_update", rank.first_update);
  column("last_update", rank.last_update);
  column("updated_ms", rank.updated_ms);
}

bool SequenceNumbers::insert(std::int64_t sequence) {
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

std::int64_t SequenceNumbers::size() const {
  std::int64_t count = 0;
  for (const auto& [first, last] : ranges_) count += last - first + 1;
  return count;
}

std::int64_t SequenceNumbers::missing() const {
  return ranges_.empty() ? 0 : ranges_.rbegin()->second - size();
}

SequenceNumbers::Ranges read_arrivals(Database& database, std::int64_t run, std::int64_t attempt, std::int64_t rank) {
  Statement rows = database.prepare("SELECT first, last FROM arrivals WHERE run = ? AND attempt = ? AND rank = ?");
  rows.bind(run, attempt, rank);
  SequenceNumbers::Ranges ranges;
  std::int64_t first = 0, last = 0;
  while (rows.next(first, last)) ranges.emplace(first, last);
  return ranges;
}

std::vector<RankRow> list_rank_places(Reader& reader, std::int64_t run, std::int64_t attempt, std::int64_t first,
                                      std::int64_t limit) {
  static const std::string sql =
      select<RankRow>("FROM ranks WHERE run = ? AND attempt = ? AND rank >= ? ORDER BY rank LIMIT ?");
  return reader.database.prepare(sql).bind(run, attempt, first, limit).all<RankRow>();
}

std::vector<RankRow> list_ranks(Reader& reader, std::int64_t run, std::int64_t attempt, std::int64_t first,
                                std::int64_t limit) {
  auto ranks = list_rank_places(reader, run, attempt, first, limit);
  for (RankRow& rank : ranks) {
    const SequenceNumbers arrived(read_arrivals(reader.database, run, attempt, rank.rank));
    rank.records = arrived.size();
    rank.missing = arrived.missing();
    rank.last = last_step(reader, run, rank.rank);
  }
  return ranks;
}

}  // namespace babelring::store
